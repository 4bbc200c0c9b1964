-- The ledger. Names are those of the Go fields; ledger/sqlstore/rows.go lists the few exceptions.

-- One action. Times and durations are microseconds (times since 1970 in UTC, 0: not set),
-- yes and no are 1 and 0, lists of words are separated by commas, lists of keys are JSON. Nothing is null.
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    next_at INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    fencing_token INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    history_count INTEGER NOT NULL DEFAULT 0,
    mark_until INTEGER NOT NULL DEFAULT 0,
    occurred_at INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL DEFAULT 0,
    last_activity_at INTEGER NOT NULL DEFAULT 0,
    settled_at INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL DEFAULT 0,
    driver_until INTEGER NOT NULL DEFAULT 0,
    payload_size INTEGER NOT NULL DEFAULT 0,
    sanitized INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    send_count INTEGER NOT NULL DEFAULT 0,
    last_tried_at INTEGER NOT NULL DEFAULT 0,
    first_failed_at INTEGER NOT NULL DEFAULT 0,
    first_sent_at INTEGER NOT NULL DEFAULT 0,
    key_sent_at INTEGER NOT NULL DEFAULT 0,
    send_by INTEGER NOT NULL DEFAULT 0,
    looks_answered INTEGER NOT NULL DEFAULT 0,
    looks_failed INTEGER NOT NULL DEFAULT 0,
    looks_in_row INTEGER NOT NULL DEFAULT 0,
    last_look_at INTEGER NOT NULL DEFAULT 0,
    negatives INTEGER NOT NULL DEFAULT 0,
    last_negative_at INTEGER NOT NULL DEFAULT 0,
    settle_from INTEGER NOT NULL DEFAULT 0,
    paused_base INTEGER NOT NULL DEFAULT 0,
    cleared_until INTEGER NOT NULL DEFAULT 0,
    granted INTEGER NOT NULL DEFAULT 0,
    release_at INTEGER NOT NULL DEFAULT 0,
    unbounded INTEGER NOT NULL DEFAULT 0 CHECK (unbounded IN (0, 1)),
    verify INTEGER NOT NULL DEFAULT 0 CHECK (verify IN (0, 1)),
    approved INTEGER NOT NULL DEFAULT 0 CHECK (approved IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('in_flight', 'ambiguous', 'retryable', 'ready', 'deferred', 'escalated', 'settled')),
    effect TEXT NOT NULL CHECK (effect IN ('not_done', 'unknown', 'done')),
    work TEXT NOT NULL DEFAULT '' CHECK (work IN ('', 'look', 'advance', 'release')),
    lane TEXT NOT NULL DEFAULT '',
    action_key TEXT NOT NULL,
    lease_holder TEXT NOT NULL DEFAULT '',
    workflow TEXT NOT NULL DEFAULT '',
    workflow_version TEXT NOT NULL DEFAULT '',
    run_id TEXT NOT NULL DEFAULT '',
    step_id TEXT NOT NULL DEFAULT '',
    connector TEXT NOT NULL DEFAULT '',
    operation TEXT NOT NULL DEFAULT '',
    record_id TEXT NOT NULL DEFAULT '',
    subject TEXT NOT NULL DEFAULT '',
    outcome_key TEXT NOT NULL DEFAULT '',
    risk TEXT NOT NULL DEFAULT '' CHECK (risk IN ('', 'low', 'normal', 'high')),
    owner TEXT NOT NULL DEFAULT '',
    original_owner TEXT NOT NULL DEFAULT '',
    replaces TEXT NOT NULL DEFAULT '',
    payload_type TEXT NOT NULL DEFAULT '',
    payload_digest TEXT NOT NULL DEFAULT '',
    excerpt TEXT NOT NULL DEFAULT '',
    provider_key TEXT NOT NULL DEFAULT '',
    key_guard TEXT NOT NULL DEFAULT '',
    key_origin TEXT NOT NULL DEFAULT '' CHECK (key_origin IN ('', 'record', 'action_key', 'derived')),
    idempotency_key TEXT NOT NULL DEFAULT '',
    keys TEXT NOT NULL DEFAULT '[]',
    driver TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'applied', 'not_applied', 'unknown')),
    settled_by TEXT NOT NULL DEFAULT '' CHECK (settled_by IN ('', 'report', 'send', 'look', 'check', 'policy', 'person')),
    class TEXT NOT NULL CHECK (class IN ('manually_resolved', 'recovered_after_retry', 'confirmed_by_lookup', 'first_attempt_success', 'blocked', 'permanently_failed', 'deferred', 'escalated', 'waiting')),
    reason TEXT NOT NULL DEFAULT '',
    remote_id TEXT NOT NULL DEFAULT '',
    flags TEXT NOT NULL DEFAULT '',
    last_class TEXT NOT NULL DEFAULT '' CHECK (last_class IN ('', 'validation', 'auth', 'permission', 'not_found', 'conflict', 'already_exists', 'duplicate_request', 'rate_limit', 'quota', 'timeout', 'network', 'unavailable', 'server_error', 'lock_conflict', 'blocked_by_edge', 'silent_noop', 'consent', 'rejected', 'unknown')),
    negative_version TEXT NOT NULL DEFAULT '',
    release_kind TEXT NOT NULL DEFAULT '' CHECK (release_kind IN ('', 'time', 'lane', 'signal', 'entry')),
    release_ref TEXT NOT NULL DEFAULT '',
    release_to TEXT NOT NULL DEFAULT '' CHECK (release_to IN ('', 'in_flight', 'ambiguous', 'retryable', 'ready', 'deferred', 'escalated', 'settled')),
    allowed TEXT NOT NULL DEFAULT '',
    policy_version TEXT NOT NULL DEFAULT '',
    payload BLOB NOT NULL DEFAULT x'',
    CONSTRAINT entry_outcome_when_settled CHECK ((state = 'settled') = (outcome <> '')),
    CONSTRAINT entry_ground_when_settled CHECK ((state = 'settled') = (settled_by <> '')),
    CONSTRAINT entry_settled_at_when_settled CHECK ((state = 'settled') = (settled_at <> 0)),
    CONSTRAINT entry_work_has_time CHECK ((work = '') = (next_at = 0)),
    CONSTRAINT entry_due_when_escalated CHECK (due_at = 0 OR state = 'escalated')
) STRICT;

-- One try.
CREATE TABLE attempt (
    entry_id INTEGER NOT NULL,
    attempt_id TEXT NOT NULL,
    attempt_no INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER NOT NULL DEFAULT 0,
    finished_at INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL DEFAULT 0,
    result_at INTEGER NOT NULL DEFAULT 0,
    effect_at INTEGER NOT NULL DEFAULT 0,
    http_status INTEGER NOT NULL DEFAULT 0,
    sends INTEGER NOT NULL DEFAULT 0,
    send_by INTEGER NOT NULL DEFAULT 0,
    rules_version INTEGER NOT NULL DEFAULT 0,
    ours INTEGER NOT NULL DEFAULT 0 CHECK (ours IN (0, 1)),
    final INTEGER NOT NULL DEFAULT 0 CHECK (final IN (0, 1)),
    counts INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)),
    replayed INTEGER NOT NULL DEFAULT 0 CHECK (replayed IN (0, 1)),
    key_spent INTEGER NOT NULL DEFAULT 0 CHECK (key_spent IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('started', 'ok', 'error', 'unknown')),
    effect TEXT NOT NULL CHECK (effect IN ('not_done', 'unknown', 'done')),
    class TEXT NOT NULL DEFAULT '' CHECK (class IN ('', 'validation', 'auth', 'permission', 'not_found', 'conflict', 'already_exists', 'duplicate_request', 'rate_limit', 'quota', 'timeout', 'network', 'unavailable', 'server_error', 'lock_conflict', 'blocked_by_edge', 'silent_noop', 'consent', 'rejected', 'unknown')),
    code TEXT NOT NULL DEFAULT '',
    message TEXT NOT NULL DEFAULT '',
    retry_after TEXT NOT NULL DEFAULT '',
    remote_id TEXT NOT NULL DEFAULT '',
    rule TEXT NOT NULL DEFAULT '',
    attempt_key TEXT NOT NULL DEFAULT '',
    reason_text TEXT NOT NULL DEFAULT '',
    reason_id TEXT NOT NULL DEFAULT '',
    -- What the reason was made of, once class and code may have become others; '': they have not.
    reason_class TEXT NOT NULL DEFAULT '',
    reason_code TEXT NOT NULL DEFAULT '',
    CONSTRAINT attempt_pkey PRIMARY KEY (entry_id, attempt_id)
) STRICT;

-- A finding, kept as ground for a change or as a fact learned too late to change anything.
CREATE TABLE evidence (
    entry_id INTEGER NOT NULL,
    asked_at INTEGER NOT NULL DEFAULT 0,
    seen_at INTEGER NOT NULL DEFAULT 0,
    counted INTEGER NOT NULL DEFAULT 0 CHECK (counted IN (0, 1)),
    void INTEGER NOT NULL DEFAULT 0 CHECK (void IN (0, 1)),
    finding TEXT NOT NULL CHECK (finding IN ('applied', 'pending', 'rejected', 'reversed', 'absent', 'not_visible', 'duplicate', 'mismatch', 'unmapped', 'could_not_ask')),
    connector TEXT NOT NULL DEFAULT '',
    form TEXT NOT NULL DEFAULT '',
    remote_id TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL DEFAULT '',
    digest TEXT NOT NULL DEFAULT '',
    pass_id TEXT NOT NULL DEFAULT '',
    detail BLOB NOT NULL DEFAULT x'',
    CONSTRAINT evidence_pkey PRIMARY KEY (entry_id, asked_at, finding, digest)
) STRICT;

-- One change of an entry. Rows are only ever added.
CREATE TABLE history (
    entry_id INTEGER NOT NULL,
    history_no INTEGER NOT NULL,
    at INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL DEFAULT 0,
    from_state TEXT NOT NULL DEFAULT '' CHECK (from_state IN ('', 'in_flight', 'ambiguous', 'retryable', 'ready', 'deferred', 'escalated', 'settled')),
    to_state TEXT NOT NULL CHECK (to_state IN ('in_flight', 'ambiguous', 'retryable', 'ready', 'deferred', 'escalated', 'settled')),
    outcome TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'applied', 'not_applied', 'unknown')),
    class TEXT NOT NULL CHECK (class IN ('manually_resolved', 'recovered_after_retry', 'confirmed_by_lookup', 'first_attempt_success', 'blocked', 'permanently_failed', 'deferred', 'escalated', 'waiting')),
    flags TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL DEFAULT '',
    actor TEXT NOT NULL DEFAULT '',
    policy_version TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT '',
    pass_id TEXT NOT NULL DEFAULT '',
    detail BLOB NOT NULL DEFAULT x'',
    CONSTRAINT history_pkey PRIMARY KEY (entry_id, history_no)
) STRICT;

-- Keys that an entry travels under or is looked for by beside the one in entry.key_guard. No two entries have one.
CREATE TABLE entry_key (
    key TEXT NOT NULL,
    connector TEXT NOT NULL,
    operation TEXT NOT NULL,
    entry_id INTEGER NOT NULL,
    CONSTRAINT entry_key_pkey PRIMARY KEY (key, connector, operation)
) STRICT;

-- Who holds an outcome key. The row is also the lock under which it is taken.
CREATE TABLE outcome_holder (
    outcome_key TEXT NOT NULL PRIMARY KEY,
    entry_id INTEGER NOT NULL,
    taken_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What processes share of one connector and credential.
CREATE TABLE lane (
    name TEXT NOT NULL PRIMARY KEY,
    paused_until INTEGER NOT NULL DEFAULT 0,
    paused_since INTEGER NOT NULL DEFAULT 0,
    paused_total INTEGER NOT NULL DEFAULT 0,
    pause_step INTEGER NOT NULL DEFAULT 0,
    failed_in_row INTEGER NOT NULL DEFAULT 0,
    lag_factor INTEGER NOT NULL DEFAULT 1,
    held INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
    held_by TEXT NOT NULL DEFAULT '',
    pause_reason TEXT NOT NULL DEFAULT '',
    account TEXT NOT NULL DEFAULT '',
    mode TEXT NOT NULL DEFAULT ''
) STRICT;

-- A rate that all processes share: the moment from which the next call is free (GCRA).
CREATE TABLE lane_rate (
    lane TEXT NOT NULL,
    bucket TEXT NOT NULL,
    next_at INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT lane_rate_pkey PRIMARY KEY (lane, bucket)
) STRICT;

-- Alerts that are, or were, open.
CREATE TABLE alert (
    alert_key TEXT NOT NULL PRIMARY KEY,
    opened_at INTEGER NOT NULL DEFAULT 0,
    closed_at INTEGER NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT ''
) STRICT;

-- Small values that all processes share.
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX entry_action_key ON entry (action_key);
-- Nothing travels twice under one key. What differs stands first, here and below: it is compared once and is short in
-- the upper pages.
CREATE UNIQUE INDEX entry_key_guard ON entry (key_guard, connector, operation) WHERE key_guard <> '';
-- What a claim reads; settled entries are not in it. The lease columns are in no index, so that a claim rewrites none.
CREATE INDEX entry_due ON entry (lane, work, next_at, action_key) WHERE work <> '';
CREATE INDEX entry_overdue ON entry (due_at, action_key) WHERE due_at > 0;
-- Windows of reports and lists.
CREATE INDEX entry_activity ON entry (last_activity_at);
-- The youngest entry known to be applied.
CREATE INDEX entry_control ON entry (connector, operation, settled_at DESC) WHERE outcome = 'applied';
-- Siblings: by outcome, by record, and look-alikes. A part of record and digest will do, as the queries compare
-- the whole; the whole of a very long record id would not fit into an index.
CREATE INDEX entry_outcome_key ON entry (outcome_key) WHERE outcome_key <> '';
CREATE INDEX entry_record ON entry (substr(record_id, 1, 128), connector, operation, substr(payload_digest, 1, 16), settled_at);
-- Calls of ours that are under way.
CREATE INDEX entry_mark ON entry (lane) WHERE mark_until > 0;
CREATE INDEX entry_flagged ON entry (action_key) WHERE flags <> '';
-- Failures by reason: the first of each ever, and those of a window.
CREATE INDEX attempt_failed ON attempt (reason_id, result_at) WHERE reason_id <> '';
CREATE INDEX history_at ON history (at);

INSERT INTO meta (name, value) VALUES
    ('generation', '1'),
    ('highest_seen', '0'),
    ('held', ''),
    ('system_identifier', ''),
    ('timeline', '');

-- Access to the HTTP interface. Of a token only its SHA-256 is kept. A name stands for one token that is good; those
-- revoked stay.
CREATE TABLE api_token (
    digest TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL DEFAULT 0,
    revoked_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX api_token_name ON api_token (name) WHERE revoked_at = 0;
