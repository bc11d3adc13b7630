// Package nepheletest starts Nephele for a test: a management API for Cluster API and workload clusters, in one process
// that needs no Kubernetes and no containers.
//
//	func TestMyController(t *testing.T) {
//		nephele := nepheletest.Start(t, nepheletest.Files("testdata/clusters.yaml"))
//		small, err := nephele.WaitForCluster(t.Context(), "default", "small")
//		if err != nil {
//			t.Fatal(err)
//		}
//		startMyController(t, nephele.RESTConfig())
//		// … and look at what it does in the workload cluster, with small.RESTConfig().
//	}
//
// A test can also break and steer the cloud: [Nephele.Fault], [Nephele.Scenario], [Nephele.Clock], [Nephele.Checkpoint] and
// [Nephele.Restore], and read what a controller caused: [Nephele.Calls].
//
// The program is the one that the environment variable NEPHELE names, or else `nephele` on PATH. It ends with the test,
// also when the test is killed: its standard input is a pipe that the kernel closes then.
package nepheletest
