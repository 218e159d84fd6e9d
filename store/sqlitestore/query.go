package sqlitestore

import "github.com/twolane/twolane/store/sqlitestore/internal/lite"

type stmt = *lite.Stmt

// query is whoever has prepared statements: the writer or a reader.
type query interface{ q(sql string) stmt }
