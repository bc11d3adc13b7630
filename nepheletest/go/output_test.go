package nepheletest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTailKeepsTheEndWithinItsBound(t *testing.T) {
	var kept tail
	for range 3 {
		fmt.Fprint(&kept, strings.Repeat("a", tailBytesMax))
	}
	fmt.Fprint(&kept, "end")
	if text := kept.String(); len(text) != tailBytesMax || !strings.HasSuffix(text, "aend") {
		t.Errorf("%d bytes are kept, and they end with %q", len(text), text[max(len(text)-10, 0):])
	}
}

func TestFirstLineIsFoundAcrossWrites(t *testing.T) {
	line := newFirstLine()
	for _, part := range []string{`{"a"`, ":1}\nmore", "\neven more\n"} {
		fmt.Fprint(line, part)
	}
	if found := string(<-line.found); found != `{"a":1}` {
		t.Errorf("found %q", found)
	}
}

func TestLastLinesOfALargeFileAreItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	content := strings.Repeat("line\n", tailBytesMax) + "last\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := lastLines(path)
	if err != nil || strings.Count(lines, "\n") != tailLinesMax-1 || !strings.HasSuffix(lines, "\nlast") {
		t.Errorf("%v, %q", err, lines)
	}
}

func TestLogIsFoundInAnErrorOfTheProgram(t *testing.T) {
	for said, expected := range map[string]string{
		"nephele up failed; its log is /a b/up.log: failed to do it: no": "/a b/up.log",
		"failed to read a.yaml (--file)":                                 "",
	} {
		if found := logNamedIn(said); found != expected {
			t.Errorf("%q in %q", found, said)
		}
	}
}
