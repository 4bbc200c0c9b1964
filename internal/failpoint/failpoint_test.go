package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPointsAreReadFromTheEnvironment(t *testing.T) {
	for in, want := range map[string]map[string]point{
		"":                           nil,
		"a=kill":                     {"a": {action: "kill", chance: 1}},
		"a=kill:0.25;b-c=stop":       {"a": {action: "kill", chance: 0.25}, "b-c": {action: "stop", chance: 1}},
		"a=sleep:20ms;b=sleep:1s:.5": {"a": {action: "sleep", wait: 20 * time.Millisecond, chance: 1}, "b": {action: "sleep", wait: time.Second, chance: 0.5}},
	} {
		got, err := parse(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(point{})); d != "" {
			t.Errorf("%q (-want +got):\n%s", in, d)
		}
	}
	for _, in := range []string{"a", "=kill", "a=die", "a=kill:2", "a=kill:-1", "a=kill:NaN", "a=kill:0.1:0.2", "a=sleep", "a=sleep:long", "a=kill;"} {
		if got, err := parse(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
}

func TestOffItDoesNothing(t *testing.T) {
	if points != nil {
		t.Skip(Env + " is set")
	}
	if n := testing.AllocsPerRun(100, func() { Hit("after-started") }); n != 0 {
		t.Errorf("a point that is off allocates %v times", n)
	}
}

// child runs this test's binary again, with the point "here" set.
func child(t *testing.T, action string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), Env+"=here="+action, "FAILPOINT_CHILD=1")
	return cmd
}

func TestChild(t *testing.T) {
	if os.Getenv("FAILPOINT_CHILD") == "" {
		t.Skip("run by the other tests")
	}
	Hit("elsewhere")
	Hit("here")
}

func TestKillEndsTheProcessAtOnceAndSaysSo(t *testing.T) {
	out, err := child(t, "kill").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", err)
	}
	if !strings.Contains(string(out), "failpoint here: kill\n") || strings.Contains(string(out), "elsewhere") {
		t.Errorf("printed %q", out)
	}
}

func TestASleepGoesOn(t *testing.T) {
	if out, err := child(t, "sleep:1ms").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
