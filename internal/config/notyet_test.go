package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatHasNoEffectYetIsWarnedOf(t *testing.T) {
	const none = ": no effect in this version: "
	cases := map[string]struct {
		toml, yaml string
		want       []string
	}{
		"nothing of it is written": {"[daemon]\ngrace = \"5s\"\n[schedule]\nsettle = \"1m\"\n[owners.a]\nname = \"A\"\n[[policy]]\nretry = {}\n", "", nil},
		"channels, once for all and their owners": {"[owners.a]\nnotify = [\"z\"]\n[notify.z]\ntype = \"slack\"\nurl = \"https://x.example\"\n[notify.b]\ntype = \"slack\"\nurl = \"https://y.example\"\n", "",
			[]string{"reconcile.toml:6: notify" + none + "notices are not sent yet, to no owner"}},
		"a default that is written out has no effect either": {"[schedule]\nsettle = \"1m\"\nprune = \"0 3 * * *\"\n", "",
			[]string{"reconcile.toml:3: schedule.prune" + none + "nothing runs at that time yet"}},
		"a job that is not there": {"[schedule]\nsettle = \"1m\"\nprune = \"@daily\"\n", "",
			[]string{"reconcile.toml:3: schedule.prune" + none + "nothing runs at that time yet"}},
		"retention": {"retention.payload = \"1d\"\n", "",
			[]string{"reconcile.toml:1: retention" + none + "everything is kept"}},
		"a policy that would hand over": {"[[policy]]\ndispatch = \"handover\"\nhandover = { url = \"https://x.example\", secret = \"s\" }\n", "",
			[]string{"reconcile.toml:2: policy.0.dispatch" + none + "nothing is handed over yet; a person decides instead"}},
		"notices of several policies, once": {"[[policy]]\nafter_max_attempts.notify = \"now\"\n", "workflow: a\nafter_max_attempts:\n  notify: true\n---\nworkflow: b\nafter_max_attempts: {notify: digest}\n",
			[]string{"p.yaml:3: after_max_attempts.notify" + none + "notices are not sent yet (also in other policies: 2)"}},
		"no notices is what happens": {"[[policy]]\nafter_max_attempts.notify = \"none\"\n", "workflow: a\nafter_max_attempts: {notify: false}\n", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"reconcile.toml": c.toml}
			if c.yaml != "" {
				files["reconcile.toml"] = "policy_files = [\"p.yaml\"]\n" + c.toml
				files["p.yaml"] = c.yaml
			}
			if d := cmp.Diff(c.want, mustLoad(t, files).Warnings); d != "" {
				t.Errorf("warnings (-want +got):\n%s", d)
			}
		})
	}
}
