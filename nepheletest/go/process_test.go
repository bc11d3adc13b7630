package nepheletest

import (
	"io"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestCommandHasAFlagForEachOption(t *testing.T) {
	s := settings{timeLimit: time.Second}
	for _, option := range []Option{
		Files("a.yaml", "b.yaml"), Objects(map[string]any{"kind": "A"}, map[string]any{"kind": "B"}),
		Attach(&rest.Config{Host: "https://a"}), StandIn(), Folder("folder"), TimeLimit(2 * time.Second),
		Provider("core.yaml", "cluster-api", "core"), Provider("own.yaml", "own", "manager"),
	} {
		option(&s)
	}
	var files unnamedFiles
	defer files.close()
	arguments, err := argumentsOf(&s, &files)
	if err != nil {
		t.Fatal(err)
	}
	expected := []string{
		"up", "--json", "--time-limit", "2s", "--file", "a.yaml", "--file", "b.yaml",
		"--file", "/dev/fd/3", "--attach", "/dev/fd/4", "--stand-in",
		"--cluster-api", "--provider", "core.yaml", "--run", "cluster-api=core",
		"--provider", "own.yaml", "--run", "own=manager", "--folder", "folder",
	}
	if !slices.Equal(arguments, expected) {
		t.Errorf("the arguments are %q", arguments)
	}
	manifest, err := io.ReadAll(files.files[0])
	if err != nil || string(manifest) != "---\n{\"kind\":\"A\"}\n---\n{\"kind\":\"B\"}\n" {
		t.Errorf("the objects are %q: %v", manifest, err)
	}
	if said := files.replacer().Replace("document 1 of /dev/fd/3"); said != "document 1 of Objects" {
		t.Errorf("the developer reads %q", said)
	}
}
