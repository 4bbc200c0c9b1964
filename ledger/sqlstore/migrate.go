package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/recovery-ledger/reconcile/ledger"
)

// The schema, as numbered steps; the same numbers for both databases. A step
// is never changed once it was released, and there is no way back.
//
//go:embed migrations
var migrationFiles embed.FS

type migration struct {
	version int
	name    string // file name
	text    string
}

// migrations lists the steps of a database in their order.
func (d *dialect) migrations() ([]migration, error) {
	files, err := fs.Glob(migrationFiles, "migrations/"+d.name+"/*.sql")
	if err != nil {
		return nil, err
	}
	var ms []migration
	for i, file := range files {
		b, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := file[strings.LastIndexByte(file, '/')+1:]
		digits, _, _ := strings.Cut(name, "_")
		n, err := strconv.Atoi(digits)
		if err != nil || n != i+1 {
			return nil, fmt.Errorf("%s: the steps must be numbered 0001_, 0002_ and so on, without a gap", file)
		}
		ms = append(ms, migration{version: n, name: name, text: string(b)})
	}
	return ms, nil
}

// schemaVersion is the last step done; 0 when this is no ledger yet.
func (s *Store) schemaVersion(ctx context.Context, on queryer) (int, error) {
	var tables int
	if _, err := s.one(ctx, on, "schema_exists", nil, &tables); err != nil || tables == 0 {
		return 0, err
	}
	var v int
	_, err := s.one(ctx, on, "schema_version", nil, &v)
	return v, err
}

// checkSchema compares the schema with what this program was made for.
func (s *Store) checkSchema(ctx context.Context) error {
	ms, err := s.d.migrations()
	if err != nil {
		return err
	}
	have, err := s.schemaVersion(ctx, s.w)
	if err != nil {
		return s.explain(ctx, err)
	}
	return schemaError(have, len(ms))
}

func schemaError(have, want int) error {
	switch {
	case have > want:
		return fmt.Errorf("%w (schema %d, this program knows %d)", ledger.ErrNewerSchema, have, want)
	case have < want:
		return fmt.Errorf("%w (schema %d, needed %d)", ledger.ErrOldSchema, have, want)
	}
	return nil
}

// migrate does the steps that are missing, each in a transaction of its own,
// under a lock that ends with the transaction: that also holds behind a
// transaction pooler. A process that is killed in the middle leaves nothing of
// the step it was at.
func (s *Store) migrate(ctx context.Context, progress io.Writer) error {
	ms, err := s.d.migrations()
	if err != nil {
		return err
	}
	have, err := s.schemaVersion(ctx, s.w)
	if err != nil {
		return s.explain(ctx, err)
	}
	if have > len(ms) {
		return schemaError(have, len(ms))
	}
	if have == len(ms) {
		_, err := fmt.Fprintf(progress, "the schema is up to date (%d)\n", have)
		return err
	}
	for _, m := range ms[have:] {
		done, err := s.step(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if done {
			if _, err := fmt.Fprintf(progress, "%s\n", m.name); err != nil {
				return err
			}
		}
	}
	return s.checkSchema(ctx)
}

// step does one step, unless another process just did.
func (s *Store) step(ctx context.Context, m migration) (done bool, err error) {
	err = s.once(ctx, func(tx *txn) error {
		done = false
		if _, err := s.exec(ctx, tx, "schema_lock", nil); err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, "schema_create", nil); err != nil {
			return err
		}
		have, err := s.schemaVersion(ctx, tx)
		if err != nil || have >= m.version {
			return err
		}
		if _, err := tx.ExecContext(ctx, m.text); err != nil {
			return err
		}
		done = true
		_, err = s.exec(ctx, tx, "schema_note", args{"version": m.version})
		return err
	})
	if err != nil && s.d == postgres && pq.As(err, pqerror.InsufficientPrivilege) != nil {
		return false, fmt.Errorf("the role may not create tables here; run reconcile migrate as the owner of the database, or grant CREATE on its schema: %w", err)
	}
	return done, s.explain(ctx, err)
}

// knowServer notes which server this is, the first time. Where the role may
// not ask for the system identifier, the timeline alone must do.
func (s *Store) knowServer(ctx context.Context) error {
	if s.d != postgres {
		return nil
	}
	_, err := s.exec(ctx, s.w, "know_server", nil)
	if err != nil && pq.As(err, pqerror.InsufficientPrivilege) != nil {
		s.log.WarnContext(ctx, "the role may not read the system identifier of the database; a restore on another server is not noticed by itself: run reconcile ledger restored after one, or grant EXECUTE ON FUNCTION pg_control_system()")
		d := *postgres
		d.fragments = map[string]string{}
		for k, v := range postgres.fragments {
			d.fragments[k] = v
		}
		d.fragments["same server"] = `(SELECT m.value FROM meta AS m WHERE m.name = 'timeline') IN ('', {timeline})`
		d.fragments["system"] = `''`
		if s.queries, err = loadQueries(&d); err != nil {
			return err
		}
		_, err = s.exec(ctx, s.w, "know_timeline", nil)
	}
	if pq.As(err, pqerror.ReadOnlySQLTransaction, pqerror.ObjectNotInPrerequisiteState) != nil {
		return errors.Join(errors.New("the server is a standby; name the primary (several hosts, and target_session_attrs=read-write, may stand in the URL)"), err)
	}
	return s.explain(ctx, err)
}
