package nepheletest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// defaultTimeLimit is the one of `nephele up`.
const defaultTimeLimit = time.Minute

// An Option changes what [Start] and [Open] start.
type Option func(*settings)

type settings struct {
	program   string
	files     []string
	objects   []any
	attach    *rest.Config
	standIn   bool
	providers []provider
	folder    string
	timeLimit time.Duration
}

// Files names YAML files with objects to create at start, such as Clusters and SimulatedClouds. The start waits until
// their Clusters are available.
func Files(paths ...string) Option {
	return func(s *settings) { s.files = append(s.files, paths...) }
}

// Objects are created at start, after those of the files: anything that encodes as a Kubernetes object in JSON, such as
// an *unstructured.Unstructured or a *clusterv1.Cluster. Each needs its apiVersion and kind. The start waits until the
// Clusters among them are available.
func Objects(objects ...any) Option {
	return func(s *settings) { s.objects = append(s.objects, objects...) }
}

// Attach uses an API server that runs already, such as envtest's, in place of the embedded one. Nephele installs its
// definitions there. It plays Cluster API there only with [StandIn].
func Attach(config *rest.Config) Option {
	return func(s *settings) { s.attach = config }
}

// StandIn plays Cluster API in an attached API server, which must have no controllers of Cluster API. Without [Attach]
// the stand-in always plays.
func StandIn() Option {
	return func(s *settings) { s.standIn = true }
}

// Provider runs the manager of a provider of Cluster API beside Nephele, in place of the stand-in: components is the file
// that clusterctl would install, and name what it calls the provider, such as bootstrap-kubeadm. Use it for Cluster API's
// own three providers, and for your own. The API server and etcd are those of envtest, unless [Attach] names one.
func Provider(components, name, program string) Option {
	return func(s *settings) { s.providers = append(s.providers, provider{components, name, program}) }
}

type provider struct{ components, name, program string }

// Folder keeps kubeconfigs, log and journal in a folder that stays after the test. The default is a new folder that is
// removed.
func Folder(path string) Option {
	return func(s *settings) { s.folder = path }
}

// TimeLimit is how long the Clusters of files and objects may take until they are available. The default is a minute.
func TimeLimit(limit time.Duration) Option {
	return func(s *settings) { s.timeLimit = limit }
}

// Program is the path of the nephele program. The default is the environment variable NEPHELE, or else `nephele` on
// PATH.
func Program(path string) Option {
	return func(s *settings) { s.program = path }
}

// validate finds what the program would report in terms of its flags.
func (s *settings) validate() error {
	if s.standIn && s.attach == nil {
		return errors.New("StandIn needs Attach; without Attach the stand-in always plays, so remove StandIn")
	}
	return nil
}

// manifest is a YAML stream of the objects. JSON is YAML.
func (s *settings) manifest() ([]byte, error) {
	var stream []byte
	for index, object := range s.objects {
		document, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("failed to encode object %d: %w", index+1, err)
		}
		stream = append(stream, "---\n"...)
		stream = append(stream, document...)
		stream = append(stream, '\n')
	}
	return stream, nil
}
