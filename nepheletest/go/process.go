package nepheletest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// startMargin is what a start may take beyond the time limit for Clusters: an attached API server may take 15 s
	// until it serves our definitions.
	startMargin = 30 * time.Second
	// providersMargin is what the managers of providers, and an API server for them, may take on top of that.
	providersMargin = 150 * time.Second
	// stopMax is how long nephele may take to end. It gives its own tasks 10 s.
	stopMax = 20 * time.Second
)

// errNoProgram says how to get the program.
var errNoProgram = errors.New("build it with `cargo build --release` in a checkout of Nephele, " +
	"and set NEPHELE to the path of target/release/nephele")

// process is a running `nephele up --json`.
type process struct {
	command *exec.Cmd
	// stdin is the life line: nephele ends when it closes. The kernel closes it when this process is killed.
	stdin  io.Closer
	stderr *tail
	// inputs replaces the paths of unnamed files by what a developer knows them as.
	inputs *strings.Replacer
	// exited closes when the process has ended; then status is set.
	exited chan struct{}
	status error
}

// report is the line that nephele prints when it is up.
type report struct {
	Folder     string
	Management struct{ Kubeconfig, Server string }
	Clusters   []struct{ Namespace, Name string }
	Journal    string
	Log        string
	// Page is empty if there is none.
	Page string
}

// launch starts nephele and waits until it is up.
func launch(ctx context.Context, s *settings) (*process, *report, error) {
	program, err := findProgram(s.program)
	if err != nil {
		return nil, nil, err
	}
	var files unnamedFiles
	// Once it runs, the program has its own copies.
	defer files.close()
	arguments, err := argumentsOf(s, &files)
	if err != nil {
		return nil, nil, err
	}
	command := exec.Command(program, arguments...)
	stdout := newFirstLine()
	p := &process{command: command, stderr: &tail{}, inputs: files.replacer(), exited: make(chan struct{})}
	command.Stdout, command.Stderr, command.ExtraFiles = stdout, p.stderr, files.files
	if p.stdin, err = command.StdinPipe(); err != nil {
		return nil, nil, fmt.Errorf("failed to make the standard input of %s: %w", program, err)
	}
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("failed to run %s: %w", program, err)
	}
	go func() {
		p.status = command.Wait()
		close(p.exited)
	}()
	limit := s.timeLimit + startMargin
	if len(s.providers) > 0 {
		limit += providersMargin
	}
	up, err := p.awaitReport(ctx, stdout, limit)
	if err != nil {
		p.end()
		return nil, nil, err
	}
	return p, up, nil
}

// findProgram resolves the path of the program.
func findProgram(wanted string) (string, error) {
	origin := "Program"
	if wanted == "" {
		wanted, origin = os.Getenv("NEPHELE"), "the environment variable NEPHELE"
	}
	if wanted == "" {
		wanted, origin = "nephele", "PATH"
	}
	path, err := exec.LookPath(wanted)
	if err != nil {
		return "", fmt.Errorf("failed to find the program %s (from %s): %w; %w", wanted, origin, err, errNoProgram)
	}
	// The test may change its folder, and run further commands.
	return filepath.Abs(path)
}

// argumentsOf are the flags for these settings.
func argumentsOf(s *settings, files *unnamedFiles) ([]string, error) {
	arguments := []string{"up", "--json", "--time-limit", s.timeLimit.String()}
	for _, file := range s.files {
		arguments = append(arguments, "--file", file)
	}
	if len(s.objects) > 0 {
		manifest, err := s.manifest()
		if err != nil {
			return nil, err
		}
		path, err := files.add("Objects", manifest)
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, "--file", path)
	}
	if s.attach != nil {
		kubeconfig, err := kubeconfigOf(s.attach)
		if err != nil {
			return nil, err
		}
		path, err := files.add("the kubeconfig of Attach", kubeconfig)
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, "--attach", path)
	}
	if s.standIn {
		arguments = append(arguments, "--stand-in")
	}
	if len(s.providers) > 0 {
		arguments = append(arguments, "--cluster-api")
	}
	for _, p := range s.providers {
		arguments = append(arguments, "--provider", p.components, "--run", p.name+"="+p.program)
	}
	if s.folder != "" {
		arguments = append(arguments, "--folder", s.folder)
	}
	return arguments, nil
}

// awaitReport waits for the line that says that nephele is up.
func (p *process) awaitReport(ctx context.Context, stdout *firstLine, limit time.Duration) (*report, error) {
	expired := time.NewTimer(limit)
	defer expired.Stop()
	select {
	case line := <-stdout.found:
		var up report
		if err := json.Unmarshal(line, &up); err != nil {
			return nil, fmt.Errorf("failed to read what nephele reports; is %s another version? %w", p.command.Path, err)
		}
		return &up, nil
	case <-p.exited:
		return nil, p.failure()
	case <-ctx.Done():
		return nil, fmt.Errorf("nephele is not up yet: %w", context.Cause(ctx))
	case <-expired.C:
		return nil, fmt.Errorf("nephele does not report within %s whether it is up; it says: %s", limit, p.said())
	}
}

// stop ends the process in an orderly way. An error says that it was over before, or did not end well.
func (p *process) stop() error {
	if p.hasExited() {
		return fmt.Errorf("nephele ended before the test: %w", p.failure())
	}
	if !p.end() {
		return fmt.Errorf("failed to end nephele within %s after its standard input closed; it was killed", stopMax)
	}
	if p.status != nil {
		return fmt.Errorf("failed to end nephele in an orderly way: %w", p.failure())
	}
	return nil
}

// end closes the life line, waits, and returns whether the process ended by itself.
func (p *process) end() bool {
	p.stdin.Close()
	expired := time.NewTimer(stopMax)
	defer expired.Stop()
	select {
	case <-p.exited:
		return true
	case <-expired.C:
		// An error means that it has just ended.
		_ = p.command.Process.Kill()
		<-p.exited
		return false
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// failure is why the process ended, in its own words, with the end of its log.
func (p *process) failure() error {
	said := p.said()
	status := "exit status 0"
	if p.status != nil {
		status = p.status.Error()
	}
	if said == "" {
		return fmt.Errorf("nephele ended with %s and said nothing", status)
	}
	return fmt.Errorf("%s (%s)%s", said, status, describeLog(logNamedIn(said)))
}

// said is the end of what the process printed for people.
func (p *process) said() string {
	said := strings.TrimPrefix(strings.TrimSpace(p.stderr.String()), "Error: ")
	return p.inputs.Replace(said)
}
