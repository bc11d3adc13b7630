package nepheletest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Nephele is a running `nephele up`: a management API, and the workload clusters that it describes. Its methods can be
// called from several goroutines.
type Nephele struct {
	process    *process
	report     *report
	config     *rest.Config
	kubeconfig string
	management dynamic.Interface
	stop       func() error
}

// Start starts Nephele for a test, waits until the Clusters of files and objects are available, and ends it with the
// test. Where this is not possible the test fails.
//
// When the test fails, the end of Nephele's log is in its output, and log and journal are among its artifacts (`go test
// -artifacts`).
func Start(t testing.TB, options ...Option) *Nephele {
	t.Helper()
	nephele, err := Open(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			nephele.explain(t)
		}
		if err := nephele.Close(); err != nil {
			t.Error(err)
		}
	})
	return nephele
}

// Open starts Nephele without a test, for example in TestMain, and waits until the Clusters of files and objects are
// available. The context bounds the start, and has no influence later. Call Close at the end.
func Open(ctx context.Context, options ...Option) (*Nephele, error) {
	nephele, err := open(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("failed to start nephele: %w", err)
	}
	return nephele, nil
}

func open(ctx context.Context, options []Option) (*Nephele, error) {
	s := settings{timeLimit: defaultTimeLimit}
	for _, option := range options {
		option(&s)
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	p, up, err := launch(ctx, &s)
	if err != nil {
		return nil, err
	}
	n := &Nephele{process: p, report: up, stop: sync.OnceValue(p.stop)}
	if err := n.connect(&s); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// connect prepares the access to the management API.
func (n *Nephele) connect(s *settings) error {
	n.kubeconfig = n.report.Management.Kubeconfig
	if s.attach != nil {
		n.config = rest.CopyConfig(s.attach)
		// The program read its kubeconfig from a file without a name. Other programs need one with a name.
		content, err := kubeconfigOf(s.attach)
		if err != nil {
			return err
		}
		n.kubeconfig = filepath.Join(n.report.Folder, "management.kubeconfig")
		if err := os.WriteFile(n.kubeconfig, content, 0o600); err != nil {
			return fmt.Errorf("failed to write the kubeconfig of the management API: %w", err)
		}
	} else {
		content, err := os.ReadFile(n.kubeconfig)
		if err != nil {
			return fmt.Errorf("failed to read the kubeconfig of the management API: %w", err)
		}
		if n.config, err = configOf(content); err != nil {
			return fmt.Errorf("failed to use the kubeconfig of the management API: %w", err)
		}
	}
	management, err := dynamic.NewForConfig(n.config)
	if err != nil {
		return fmt.Errorf("failed to make a client of the management API: %w", err)
	}
	n.management = management
	return nil
}

// configOf has no rate limit: client-go's protects API servers that others share, and makes tests slow.
func configOf(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Close ends Nephele and waits until it is gone. The error says that Nephele ended before, or not in an orderly way.
// Further calls have no effect.
func (n *Nephele) Close() error {
	return n.stop()
}

// RESTConfig is how clients reach the management API. With [Attach] it is a copy of what was given there.
func (n *Nephele) RESTConfig() *rest.Config {
	return rest.CopyConfig(n.config)
}

// Kubeconfig is the path of a kubeconfig for the management API, for other programs such as kubectl.
func (n *Nephele) Kubeconfig() string {
	return n.kubeconfig
}

// Folder has kubeconfigs, log and journal. It is removed at the end, unless the option [Folder] names it.
func (n *Nephele) Folder() string {
	return n.report.Folder
}

// Log is the path of Nephele's log. The environment variable RUST_LOG sets what it contains.
func (n *Nephele) Log() string {
	return n.report.Log
}

// Journal is the path of the journal of the simulated cloud: every call and every event.
func (n *Nephele) Journal() string {
	return n.report.Journal
}

// Page is the address of the live page, which shows the clusters in a browser until Nephele ends. It is empty if there is
// none.
func (n *Nephele) Page() string {
	return n.report.Page
}

// explain gives a failed test what helps to find out why.
func (n *Nephele) explain(t testing.TB) {
	t.Helper()
	t.Logf("Nephele's log and journal are artifacts of this test (go test -artifacts)%s", describeLog(n.Log()))
	for _, path := range []string{n.Log(), n.Journal()} {
		// A test can have several of them.
		name := filepath.Base(n.Folder()) + "-" + filepath.Base(path)
		if err := copyFile(path, filepath.Join(t.ArtifactDir(), name)); err != nil {
			t.Logf("failed to keep %s: %v", path, err)
		}
	}
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
