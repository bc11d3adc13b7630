package nepheletest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// victimVariable makes this program a test that starts Nephele and waits to be killed.
const victimVariable = "NEPHELETEST_VICTIM"

// victim is what the test that will be killed says about its Nephele.
type victim struct {
	PID    int
	Folder string
}

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) == "" {
		os.Exit(m.Run())
	}
	if err := becomeVictim(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func becomeVictim() error {
	nephele, err := Open(context.Background(), Files("testdata/small.yaml"))
	if err != nil {
		return err
	}
	facts := victim{PID: nephele.process.command.Process.Pid, Folder: nephele.Folder()}
	if err := json.NewEncoder(os.Stdout).Encode(facts); err != nil {
		return err
	}
	// Until it is killed.
	select {}
}

// A second process starts Nephele, and is killed so that it can clean up nothing.
func TestKilledTestLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), victimVariable+"=1", "TMPDIR="+temporary)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	killed := errors.Join(command.Process.Kill(), ignoreExit(command.Wait()))
	if err = errors.Join(err, killed); err != nil {
		t.Fatal(err)
	}
	var facts victim
	if err := json.Unmarshal(line, &facts); err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(facts.Folder) != temporary {
		t.Errorf("the folder %s is not in %s", facts.Folder, temporary)
	}
	deadline := time.Now().Add(stopMax)
	for left := leftovers(facts.PID, temporary); left != nil; left = leftovers(facts.PID, temporary) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", stopMax, left)
		}
		time.Sleep(pollInterval)
	}
}

func ignoreExit(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}

// leftovers returns what the killed test has left behind.
func leftovers(pid int, temporary string) error {
	if isRunning(pid) {
		return fmt.Errorf("nephele runs as process %d", pid)
	}
	entries, err := os.ReadDir(temporary)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s has %v", temporary, entries)
	}
	return nil
}

// isRunning is false for a process that has ended, also while its exit status was not asked for: in a container,
// often no process asks.
func isRunning(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		// The name in parentheses can contain anything. The state follows it.
		_, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		return !strings.HasPrefix(state, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}
