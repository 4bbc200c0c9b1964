package reports

import "context"

// Store is what the reports read, each its own part.
type Store interface {
	OutcomeStore
	LookStore // and ReasonStore
	QueueStore
	DuplicateStore // and RecoveryStore
}

// Spec is a report that can be asked for by name.
type Spec struct {
	Name    string
	Summary string // what it counts, in one line
	Make    func(ctx context.Context, s Store, p Params) (*Report, error)
}

// All lists the reports there are.
func All() []Spec {
	return []Spec{
		{"outcomes", "entries by report class; the classes add up to the total",
			func(ctx context.Context, s Store, p Params) (*Report, error) { return Outcomes(ctx, s, p) }},
		{"reasons", "why attempts failed: how often, in which versions, and what that suggests",
			func(ctx context.Context, s Store, p Params) (*Report, error) { return Reasons(ctx, s, p) }},
		{"recovery", "how much failed at first, how much of that recovered, and how long it took",
			func(ctx context.Context, s Store, p Params) (*Report, error) { return Recovery(ctx, s, p) }},
		{"connectors", "how the outside systems did: failures, looks, what could not be asked, looks per settled entry",
			func(ctx context.Context, s Store, p Params) (*Report, error) { return Connectors(ctx, s, p) }},
		{"queue", "what waits for a person or a condition, by owner: since when, what is overdue, what is due next",
			func(ctx context.Context, s Store, p Params) (*Report, error) { return Queue(ctx, s, p) }},
		{"duplicates", "outcomes that came about twice, and how many duplicates were prevented",
			func(ctx context.Context, s Store, p Params) (*Report, error) { return Duplicates(ctx, s, p) }},
		{"weekly", "all of these on one page, over the last full week", Weekly},
	}
}
