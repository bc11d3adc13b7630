package nepheletest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// A CommandError says that a command of the program did not succeed.
type CommandError struct {
	// Arguments are those of the command, without the program.
	Arguments []string
	// ExitCode is that of the program, or -1 if a signal ended it.
	ExitCode int
	// Stderr is the end of what the program said.
	Stderr string
}

func (e *CommandError) Error() string {
	said := strings.TrimSpace(e.Stderr)
	said = strings.TrimPrefix(strings.TrimPrefix(said, "Error: "), "error: ")
	return fmt.Sprintf("failed to run %s (exit code %d): %s", commandLine(e.Arguments), e.ExitCode, said)
}

// Run runs a command of the program against this Nephele, and returns what it prints: every command of the book that
// takes a kubeconfig, with all its flags.
//
//	machines, err := nephele.Run(ctx, "get", "machines")
//
// The program is the one that runs as Nephele, and KUBECONFIG names [Nephele.Kubeconfig]. Proxies of the environment
// are left out. The command ends with the context, and as soon as Nephele ends. If the program refuses or fails, the
// error is a [*CommandError].
func (n *Nephele) Run(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		// A command that follows something would wait for a Nephele that is gone.
		select {
		case <-n.process.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	var stdout bytes.Buffer
	var stderr tail
	command := exec.CommandContext(ctx, n.process.command.Path, arguments...)
	command.Env = append(withoutProxies(os.Environ()), "KUBECONFIG="+n.kubeconfig)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if err == nil {
		return stdout.String(), nil
	}
	if n.process.hasExited() {
		return "", fmt.Errorf("failed to run %s: nephele ended: %w", commandLine(arguments), n.process.failure())
	}
	if ctx.Err() != nil {
		said := strings.TrimSpace(stderr.String())
		return "", fmt.Errorf("failed to run %s: %w; it said: %q", commandLine(arguments), context.Cause(ctx), said)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", &CommandError{Arguments: arguments, ExitCode: exit.ExitCode(), Stderr: stderr.String()}
	}
	return "", fmt.Errorf("failed to run %s: %w", commandLine(arguments), err)
}

// withoutProxies leaves out the variables that would lead requests for this machine elsewhere.
func withoutProxies(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY":
		default:
			kept = append(kept, variable)
		}
	}
	return kept
}

var plainArgument = regexp.MustCompile(`^[-\w./:=,@%+]+$`)

// commandLine is what a developer would type.
func commandLine(arguments []string) string {
	line := "`nephele"
	for _, argument := range arguments {
		if !plainArgument.MatchString(argument) {
			argument = "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
		}
		line += " " + argument
	}
	return line + "`"
}
