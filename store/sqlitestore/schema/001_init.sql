-- reader: 1
PRAGMA application_id = 0x74776c6e;
-- The first schema. What a column holds beside the record (cmd.rec) is derived from it and from nothing else: Audit proves it.

-- The namespace: clocks, counters and the schema that a reader must know at least.
CREATE TABLE ns (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  reader  INTEGER NOT NULL,            -- lowest schema whose programs can work on this file
  last    INTEGER NOT NULL DEFAULT 0,  -- the three clocks, see rule.Clocks; 0 until the first step
  run     INTEGER NOT NULL DEFAULT 0,
  lease   INTEGER NOT NULL DEFAULT 0,
  shift   INTEGER NOT NULL DEFAULT 0,  -- server time = the machine's clock since it started + shift
  fixed   INTEGER NOT NULL DEFAULT 0,  -- a test's clock; 0 for the real one
  seq     INTEGER NOT NULL DEFAULT 0,  -- arrivals so far
  token   INTEGER NOT NULL DEFAULT 0,  -- leases so far
  entry   INTEGER NOT NULL DEFAULT 0,  -- outbox entries so far
  version INTEGER NOT NULL DEFAULT 0,  -- of the configuration
  held    INTEGER NOT NULL DEFAULT 0,  -- commands that are members of a limit
  rooms   INTEGER NOT NULL DEFAULT 0,  -- rows of table room
  filed   INTEGER NOT NULL DEFAULT 0,  -- lines that wait for a limit
  filings INTEGER NOT NULL DEFAULT 0,  -- lines filed so far: their order
  swept   INTEGER NOT NULL DEFAULT 0,  -- run clock: when the last round over all keys that lines wait for began
  sweep   INTEGER NOT NULL DEFAULT 0   -- how far it has come; 0 if it is over
);

CREATE TABLE config (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  json TEXT NOT NULL
);

-- Queues by number, with what people count (nothing else depends on these numbers but MaxReady). arrived0 and arrived1 grow with everything that enters a line of the lane.
CREATE TABLE queue (
  q         INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  ready     INTEGER NOT NULL DEFAULT 0,  -- PENDING in line or scheduled
  scheduled INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,  -- finished records, tombstones left out
  failed    INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  arrived0  INTEGER NOT NULL DEFAULT 0,
  arrived1  INTEGER NOT NULL DEFAULT 0,
  v0        REAL NOT NULL DEFAULT 0,     -- virtual time of fair turns, by lane
  v1        REAL NOT NULL DEFAULT 0,
  fair      INTEGER NOT NULL DEFAULT 0   -- up to which line they know their group: -1 all of them; 0 none, as if the queue were not fair
);

CREATE TABLE reason (
  q    INTEGER NOT NULL,
  name TEXT NOT NULL,
  n    INTEGER NOT NULL,
  PRIMARY KEY (q, name)
) WITHOUT ROWID;

-- Types of a queue by number.
CREATE TABLE kind (
  k         INTEGER PRIMARY KEY,
  q         INTEGER NOT NULL,
  type      TEXT NOT NULL,
  inline0   INTEGER NOT NULL DEFAULT 0,
  inline1   INTEGER NOT NULL DEFAULT 0,
  leased0   INTEGER NOT NULL DEFAULT 0,
  leased1   INTEGER NOT NULL DEFAULT 0,
  scheduled INTEGER NOT NULL DEFAULT 0,
  UNIQUE (q, type)
);

-- Lines by the hash of their name. One in which somebody stands has a head: the score of its first command. One that waits for a limit is filed
-- under a key (room), and shut until room has come.
CREATE TABLE line (
  ln     INTEGER PRIMARY KEY,
  name   TEXT NOT NULL,
  k      INTEGER NOT NULL,
  lane   INTEGER NOT NULL,
  class  INTEGER NOT NULL,
  head   INTEGER,
  shut   INTEGER NOT NULL DEFAULT 0,  -- 1: no claim looks at it
  grp    TEXT,                        -- its group, if that is needed for fair turns
  room   INTEGER,                     -- where it is filed
  ord    INTEGER,                     -- since which filing; from 1 << 60 on: its cost is over the limit
  since  INTEGER,                     -- and when, by the run clock
  opened INTEGER NOT NULL DEFAULT 0,  -- run clock since when it may take room; 0 while it is shut
  passed INTEGER NOT NULL DEFAULT 0,  -- how often it let room stand since it was last granted
  CHECK (CASE WHEN room IS NULL THEN shut = 0 AND opened = 0 AND ord IS NULL ELSE shut = (opened = 0) AND ord IS NOT NULL AND head IS NOT NULL END)
);
CREATE INDEX line_head ON line (k, lane, shut, class, head) WHERE head IS NOT NULL;
CREATE INDEX line_list ON line (k, lane, ln);
CREATE INDEX line_due ON line (head) WHERE lane = 1 AND head IS NOT NULL;
CREATE INDEX line_filed ON line (room, ord) WHERE room IS NOT NULL;
CREATE INDEX line_group ON line (k, lane, class, grp, head) WHERE grp IS NOT NULL AND head IS NOT NULL AND shut = 0;

-- The counted values of limits that are in use.
CREATE TABLE room (
  r       INTEGER PRIMARY KEY,
  name    TEXT NOT NULL,               -- of the limit
  value   TEXT NOT NULL,
  members INTEGER NOT NULL DEFAULT 0,  -- costs of its members, summed
  lines   INTEGER NOT NULL DEFAULT 0,  -- filed under it
  stood   INTEGER NOT NULL DEFAULT 0,  -- run clock since when room has stood for the oldest of them; 0: there is none
  at      INTEGER,                     -- run clock: when time alone may change something for them
  tat     REAL NOT NULL DEFAULT 0,     -- of a rate
  epoch   INTEGER NOT NULL DEFAULT 0,  -- limits in force when all of them were last asked whether they still wait
  asked   INTEGER NOT NULL DEFAULT 0,  -- how far the present round of questions has come; 0 if there is none
  UNIQUE (name, value)
);
CREATE INDEX room_filed ON room (r) WHERE lines > 0;
CREATE INDEX room_at ON room (at) WHERE at IS NOT NULL;

-- Groups of fair queues by the virtual start of their next turn, and the head of the first line that each has in a stream of one type, lane and class.
-- One without a line is kept until its turn lies behind.
CREATE TABLE turn (
  q     INTEGER NOT NULL,
  lane  INTEGER NOT NULL,
  grp   TEXT NOT NULL,
  k     INTEGER NOT NULL,
  class INTEGER NOT NULL,
  last  REAL NOT NULL,
  head  INTEGER,
  PRIMARY KEY (q, lane, grp, k, class)
) WITHOUT ROWID;
CREATE INDEX turn_next ON turn (k, lane, class, last, head, grp) WHERE head IS NOT NULL;
CREATE INDEX turn_idle ON turn (q, lane, last) WHERE head IS NULL;

-- Commands by the number of their first arrival. Few indexes, all but two of them partial: each costs every command.
CREATE TABLE cmd (
  n      INTEGER PRIMARY KEY,
  id     TEXT NOT NULL UNIQUE,
  k      INTEGER NOT NULL,
  status INTEGER NOT NULL,
  place  INTEGER NOT NULL,
  q      INTEGER NOT NULL,
  ended  INTEGER,  -- finished, no tombstone: when; server time
  line   INTEGER,  -- in line: which, its score there, and since when it waits
  score  INTEGER,
  since  INTEGER,
  waits  INTEGER,  -- for what until at: 1 the end of a lease, 2 its purge; 8 q + 1 its turn to be in line by the run clock, 8 q + 2 by server time
  at     INTEGER,
  ends   INTEGER,  -- at rest: when time alone ends it, or its cancel visits; server time
  flag   INTEGER,  -- leased: 1 + lane if its handler ignores the end of its time, + 4 if a cancel was asked for
  ukey   TEXT,     -- the unique key of a live command
  grp    TEXT,
  holds  TEXT,     -- a member of limits: its cost and the rooms, with blanks between
  hold   INTEGER,  -- at rest and a member for the time of the command: the first such room; others are in table also
  sum    INTEGER NOT NULL,  -- checksum of id, k, status, place, the end of the lease, grp and rec
  rec    BLOB NOT NULL,
  CHECK (CASE place
    WHEN 1 THEN status < 3 AND line IS NOT NULL AND at IS NULL
    WHEN 3 THEN status < 3 AND line IS NULL AND at IS NOT NULL
    WHEN 0 THEN status > 2 AND line IS NULL AND ukey IS NULL
    WHEN 2 THEN status = 1 AND line IS NULL AND at IS NOT NULL
    ELSE 0 END)
);
CREATE INDEX cmd_line ON cmd (line, score) WHERE line IS NOT NULL;
CREATE INDEX cmd_at ON cmd (waits, at) WHERE waits IS NOT NULL;
CREATE INDEX cmd_ended ON cmd (q, status, ended) WHERE ended IS NOT NULL;
CREATE INDEX cmd_ends ON cmd (ends) WHERE ends IS NOT NULL;
CREATE INDEX cmd_flag ON cmd (flag) WHERE flag IS NOT NULL;
CREATE INDEX cmd_hold ON cmd (hold) WHERE hold IS NOT NULL;
CREATE UNIQUE INDEX cmd_ukey ON cmd (ukey) WHERE ukey IS NOT NULL;

CREATE TABLE also (
  r INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (r, n)
) WITHOUT ROWID;

-- Large values of commands: row 8 * n + which.
CREATE TABLE body (
  b    INTEGER PRIMARY KEY,
  data BLOB NOT NULL
);

-- Live commands by group.
CREATE TABLE grp (
  name TEXT PRIMARY KEY,
  live INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE outbox (
  seq    INTEGER PRIMARY KEY,
  topic  TEXT NOT NULL,
  n      INTEGER NOT NULL UNIQUE,
  hidden INTEGER NOT NULL DEFAULT 0  -- server time until which other readers do not see it
);
CREATE INDEX outbox_topic ON outbox (topic, hidden, seq);

CREATE TABLE topic (
  name TEXT PRIMARY KEY,
  n    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE worker (
  id      TEXT PRIMARY KEY,
  expires INTEGER NOT NULL,  -- lease clock
  json    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX worker_expires ON worker (expires);

-- The last claim of each worker: its nonce and the numbers of what it got, eight bytes each.
CREATE TABLE claimed (
  worker TEXT PRIMARY KEY,
  nonce  TEXT NOT NULL,
  at     INTEGER NOT NULL,  -- lease clock
  got    BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX claimed_at ON claimed (at);

CREATE TABLE bucket (
  q    INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  tat  REAL NOT NULL,
  PRIMARY KEY (q, lane)
) WITHOUT ROWID;

CREATE TABLE throttle (
  k      INTEGER NOT NULL,
  lane   INTEGER NOT NULL,
  rate   REAL NOT NULL,
  ceil   REAL NOT NULL,
  at     INTEGER NOT NULL,
  halved INTEGER NOT NULL,
  tat    REAL NOT NULL,
  PRIMARY KEY (k, lane)
) WITHOUT ROWID;

-- Records that could not be read, set aside as they were.
CREATE TABLE lost (
  n   INTEGER PRIMARY KEY,
  id  TEXT NOT NULL,
  at  INTEGER NOT NULL,  -- server time
  why TEXT NOT NULL,
  sum INTEGER NOT NULL,
  rec BLOB NOT NULL
);

INSERT INTO ns (one, reader) VALUES (1, 1);
