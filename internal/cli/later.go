package cli

import "github.com/spf13/cobra"

// later lists what the contract names and this version cannot do yet. The
// commands are there so that a script gets a clear answer.
var later = []struct{ use, short string }{
	{"release", "release deferred entries by hand"},
	{"signal NAME", "tell that something happened which entries wait for"},
	{"regroup", "group the reasons of failures anew, under new rules"},
	{"prune", "remove settled entries that are past their retention"},
	{"erase SUBJECT", "remove what is known of a person"},
}

func laterCommands() []*cobra.Command {
	var cs []*cobra.Command
	for _, l := range later {
		c := &cobra.Command{
			Use:                l.use,
			Short:              l.short,
			GroupID:            groupLater,
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return notYet(words(cmd))
			},
		}
		cs = append(cs, c)
	}
	return cs
}

// notYet is the answer to whatever is promised and not there.
func notYet(what string) error {
	return usagef("%s: not supported yet", what)
}
