package nepheletest

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// unnamedFiles are files that only this process and the program have. Nothing of them stays behind when the test is
// killed.
type unnamedFiles struct {
	files []*os.File
	// names are pairs: the path for the program, and what a developer knows the file as.
	names []string
}

// add makes a file, and returns the path at which the program finds it.
func (u *unnamedFiles) add(name string, content []byte) (string, error) {
	file, err := unnamedFile(content)
	if err != nil {
		return "", fmt.Errorf("failed to pass %s to nephele: %w", name, err)
	}
	// Descriptors 0 to 2 are the standard ones; those of exec.Cmd.ExtraFiles follow.
	path := fmt.Sprintf("/dev/fd/%d", 3+len(u.files))
	u.files = append(u.files, file)
	u.names = append(u.names, path, name)
	return path, nil
}

func (u *unnamedFiles) replacer() *strings.Replacer {
	return strings.NewReplacer(u.names...)
}

func (u *unnamedFiles) close() {
	for _, file := range u.files {
		file.Close()
	}
}

// unnamedFile has content, is read from its start, and is gone when everybody has closed it.
func unnamedFile(content []byte) (*os.File, error) {
	file, err := os.CreateTemp("", "nepheletest-")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
