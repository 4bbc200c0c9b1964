package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Lanes lists the lanes that were used, by name.
func (s *Store) Lanes(ctx context.Context) ([]ledger.Lane, error) {
	ls, err := all[ledger.Lane](ctx, s, s.r, "lanes", laneLayout, nil)
	return ls, s.readError(ctx, "list lanes", err)
}

// Lane reads one lane; one never used is zero but for its name and LagFactor 1.
func (s *Store) Lane(ctx context.Context, name string) (ledger.Lane, error) {
	l, _, err := s.lane(ctx, s.r, "lane", name)
	return l, s.readError(ctx, fmt.Sprintf("read lane %q", name), err)
}

func (s *Store) lane(ctx context.Context, on queryer, query, name string) (l ledger.Lane, found bool, err error) {
	l = ledger.Lane{Name: storable(name), LagFactor: 1}
	found, err = s.one(ctx, on, query, args{"lane": l.Name}, laneLayout.dest(&l)...)
	return l, found, err
}

// SaveLane changes a lane under its row lock. It is called again when the
// transaction has to be repeated.
func (s *Store) SaveLane(ctx context.Context, name string, change func(l ledger.Lane, now time.Time) ledger.Lane) (ledger.Lane, error) {
	var out ledger.Lane
	err := s.write(ctx, fmt.Sprintf("save lane %q", name), func(tx *txn) error {
		l, found, err := s.lane(ctx, tx, "lane_lock", name)
		if err == nil && !found {
			if _, err = s.exec(ctx, tx, "lane_new", args{"lane": l.Name}); err == nil {
				l, _, err = s.lane(ctx, tx, "lane_lock", name)
			}
		}
		if err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		out = change(l, now)
		out.Name = l.Name
		return s.bulk(ctx, tx, "lane_save", laneLayout, rowsOf(laneLayout, []ledger.Lane{out}), nil)
	})
	return out, err
}

// Reserve takes n calls from a shared rate; see ledger.Store.
func (s *Store) Reserve(ctx context.Context, lane, bucket string, n, burst int, every time.Duration) (from, now time.Time, err error) {
	span := time.Duration(n) * every
	err = s.write(ctx, fmt.Sprintf("reserve calls on lane %q", lane), func(tx *txn) error {
		if now, err = s.now(ctx, tx); err != nil {
			return err
		}
		var next int64
		_, err := s.one(ctx, tx, "reserve", args{
			"lane": storable(lane), "bucket": storable(bucket), "now": micros(now), "span": spanMicros(span)}, &next)
		from = instant(next).Add(-span - time.Duration(max(burst, 1)-1)*every)
		return err
	})
	if from.Before(now) {
		from = now
	}
	return from, now, err
}

// Hold holds or resumes sends, of one lane or ("") of the whole ledger.
func (s *Store) Hold(ctx context.Context, lane string, on bool, by string) error {
	held := 0
	if on {
		held = 1
		if by == "" {
			by = "somebody"
		}
	} else {
		by = ""
	}
	if lane == "" {
		return s.SetMeta(ctx, ledger.MetaHeld, by)
	}
	return s.write(ctx, fmt.Sprintf("hold lane %q", lane), func(tx *txn) error {
		_, err := s.exec(ctx, tx, "lane_hold", args{"lane": storable(lane), "held": held, "by": storable(by)})
		return err
	})
}

// Alert opens an alert under a key, unless one is open.
func (s *Store) Alert(ctx context.Context, key, text string) (opened bool, err error) {
	err = s.write(ctx, fmt.Sprintf("open alert %q", key), func(tx *txn) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		var at int64
		opened, err = s.one(ctx, tx, "alert_open", args{"key": storable(key), "at": micros(now), "message": storable(text)}, &at)
		return err
	})
	return opened, err
}

// Calm closes an alert. One that is not open stays as it is.
func (s *Store) Calm(ctx context.Context, key string) error {
	return s.write(ctx, fmt.Sprintf("close alert %q", key), func(tx *txn) error {
		now, err := s.now(ctx, tx)
		if err == nil {
			_, err = s.exec(ctx, tx, "alert_close", args{"key": storable(key), "at": micros(now)})
		}
		return err
	})
}

// Meta reads a small value that all processes share; "" when it was never set.
func (s *Store) Meta(ctx context.Context, name string) (string, error) {
	var value string
	_, err := s.one(ctx, s.r, "meta", args{"name": storable(name)}, &value)
	return value, s.readError(ctx, fmt.Sprintf("read %q of the ledger", name), err)
}

// SetMeta sets it.
func (s *Store) SetMeta(ctx context.Context, name, value string) error {
	return s.write(ctx, fmt.Sprintf("set %q of the ledger", name), func(tx *txn) error {
		_, err := s.exec(ctx, tx, "set_meta", args{"name": storable(name), "value": storable(value)})
		return err
	})
}
