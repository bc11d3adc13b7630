package nepheletest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

const (
	// tailBytesMax is how much of the program's error output and log an error can show.
	tailBytesMax = 8 * 1024
	// tailLinesMax is how many lines of the log an error shows.
	tailLinesMax = 20
	// reportBytesMax bounds the program's report, which has some 200 bytes per cluster.
	reportBytesMax = 64 * 1024 * 1024
)

// tail keeps the end of what is written to it.
type tail struct {
	mutex sync.Mutex
	kept  []byte
}

func (t *tail) Write(content []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept = append(t.kept, content...)
	if surplus := len(t.kept) - tailBytesMax; surplus > 0 {
		t.kept = append(t.kept[:0], t.kept[surplus:]...)
	}
	return len(content), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.kept)
}

// firstLine sends the first line that is written to it, and drops the rest. It has one writer.
type firstLine struct {
	found  chan []byte
	line   []byte
	isSent bool
}

func newFirstLine() *firstLine {
	return &firstLine{found: make(chan []byte, 1)}
}

func (f *firstLine) Write(content []byte) (int, error) {
	if f.isSent {
		return len(content), nil
	}
	part, _, isComplete := bytes.Cut(content, []byte("\n"))
	f.line = append(f.line, part...)
	if len(f.line) > reportBytesMax {
		return 0, fmt.Errorf("the first line has more than %d bytes", reportBytesMax)
	}
	if isComplete {
		f.found <- f.line
		f.line, f.isSent = nil, true
	}
	return len(content), nil
}

// logNamedIn is the path of the log that an error of the program names, or empty.
func logNamedIn(said string) string {
	_, rest, _ := strings.Cut(said, "its log is ")
	path, _, _ := strings.Cut(rest, ": ")
	return path
}

// describeLog has the path of a log and its last lines, for the end of an error. It is empty without a log.
func describeLog(path string) string {
	if path == "" {
		return ""
	}
	lines, err := lastLines(path)
	if err != nil {
		return fmt.Sprintf("\nfailed to read the log: %v", err)
	}
	return fmt.Sprintf("\nthe last lines of the log %s:\n%s", path, lines)
}

// describePage has the address of the live page, for the end of an error. It is empty without a page.
func describePage(address string) string {
	if address == "" {
		return ""
	}
	return "\nuntil Nephele ends, its page shows what is there: " + address
}

// lastLines reads the end of a file, whatever its size.
func lastLines(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	start := max(size-tailBytesMax, 0)
	content, err := io.ReadAll(io.NewSectionReader(file, start, size-start))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(len(lines)-tailLinesMax, 0):], "\n"), nil
}
