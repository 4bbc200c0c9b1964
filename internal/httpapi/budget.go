package httpapi

import (
	"context"
	"time"
)

// budgetUnit is the step in which a budget is counted.
const budgetUnit = 64 << 10

// budget bounds the bytes of all bodies that are in memory at once: whoever
// comes when it is used up waits, in order.
type budget struct {
	turn  chan struct{} // held by the one who takes: two who each had half would wait forever
	units chan struct{}
}

func newBudget(bytes int) *budget {
	return &budget{turn: make(chan struct{}, 1), units: make(chan struct{}, max(1, bytes/budgetUnit))}
}

// take waits until there is room for so many bytes, and returns what gives it
// back. Who wants more than there is at all gets all of it.
func (b *budget) take(ctx context.Context, bytes int) (give func(), err error) {
	n := min(max(1, (bytes+budgetUnit-1)/budgetUnit), cap(b.units))
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for i := range n {
		select {
		case b.units <- struct{}{}:
		case <-ctx.Done():
			b.give(i)
			return nil, ctx.Err()
		}
	}
	return func() { b.give(n) }, nil
}

// wait is take, for so long at most.
func (b *budget) wait(ctx context.Context, most time.Duration, bytes int) (give func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return b.take(ctx, bytes)
}

func (b *budget) give(n int) {
	for range n {
		<-b.units
	}
}
