package textfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNotText(t *testing.T) {
	for name, c := range map[string]struct{ head, want string }{
		"nothing":                                      {"", ""},
		"a record":                                     {`{"action_key":"a"}`, ""},
		"a byte order mark of UTF-8":                   {"\xef\xbb\xbf{}", ""},
		"UTF-16, low byte first":                       {"\xff\xfe{\x00}\x00", utf16},
		"UTF-16, high byte first":                      {"\xfe\xff\x00{\x00}", utf16},
		"UTF-16 without its mark, low byte first":      {"{\x00\"\x00", utf16},
		"UTF-16 without its mark, high byte first":     {"\x00{\x00\"", utf16},
		"UTF-32 begins like UTF-16":                    {"\xff\xfe\x00\x00{\x00\x00\x00", utf32},
		"what a crash filled with zeros may hold text": {"\x00\x00\x00\x00\x00{}", ""},
		"zeros that end before text":                   {"\x00\x00\x00{", ""},
		"zeros within text":                            {"ab\x00\x00\x00", ""},
		"gzip":                                         {"\x1f\x8b\x08", packed},
		"zip":                                          {"PK\x03\x04", packed},
		"bzip2":                                        {"BZh9", packed},
		"xz":                                           {"\xfd7zXZ\x00", packed},
		"zstandard":                                    {"\x28\xb5\x2f\xfd", packed},
	} {
		if got := NotText([]byte(c.head)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := NotText([]byte("SQLite format 3\x00")); !strings.Contains(got, "reconcile export") {
		t.Errorf("a ledger: got %q", got)
	}
}

func TestTrouble(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"not there":          {filepath.Join(dir, "nowhere"), "no such file; "},
		"a folder":           {dir, "is a folder; "},
		"below what is none": {filepath.Join(file, "x"), "is no folder; "},
	} {
		_, err := os.ReadFile(c.path)
		if got := Trouble(err); !strings.Contains(got, c.want) || strings.Contains(got, dir) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := Trouble(&os.PathError{Op: "open", Path: "x", Err: os.ErrPermission}); !strings.HasPrefix(got, "permission denied; ") {
		t.Errorf("got %q", got)
	}
	if got := Trouble(errors.New("disk on fire")); got != "disk on fire" {
		t.Errorf("got %q", got)
	}
}
