// Package textfile says why a file cannot be read as text, and what to do.
package textfile

import (
	"bytes"
	"errors"
	"io/fs"
	"syscall"
)

// signatures are the first bytes of files that people give where text is
// wanted. None of them begins UTF-8 text.
var signatures = []struct{ head, why string }{
	{"\xff\xfe\x00\x00", utf32},
	{"\x00\x00\xfe\xff", utf32},
	{"\xff\xfe", utf16},
	{"\xfe\xff", utf16},
	{"\x1f\x8b", packed},
	{"PK\x03\x04", packed},
	{"BZh", packed},
	{"\xfd7zXZ\x00", packed},
	{"\x28\xb5\x2f\xfd", packed},
	{"SQLite format 3\x00", `is a SQLite database; of a ledger, take what "reconcile export" prints`},
}

const (
	utf16  = "is UTF-16; save it as UTF-8"
	utf32  = "is UTF-32; save it as UTF-8"
	packed = "is compressed; unpack it first"
)

// NotText says by the first bytes of a file what it is instead of UTF-8 text,
// and what to do; "" where it may be text. UTF-16 is known by its byte order
// mark, or by two characters of ASCII.
func NotText(head []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(head, []byte(s.head)) {
			return s.why
		}
	}
	if len(head) >= 4 {
		even, odd := head[0] == 0 && head[2] == 0, head[1] == 0 && head[3] == 0
		if even != odd && (even || head[0] != 0 && head[2] != 0) && (odd || head[1] != 0 && head[3] != 0) {
			return utf16
		}
	}
	return ""
}

// Trouble is the reason in an error from opening or reading a file, without
// its path, and what to do where that is known.
func Trouble(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file; correct the name"
	case errors.Is(err, syscall.EISDIR):
		return "is a folder; name the files in it"
	case errors.Is(err, syscall.ENOTDIR):
		return "what stands before the last slash is no folder; correct the name"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied; give the user who runs this the right to it"
	}
	return err.Error()
}
