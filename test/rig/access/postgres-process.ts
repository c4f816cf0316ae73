/**
 * A process that keeps an embedded database running, as the supervisor of a stack does. It prints each new state as a
 * line of JSON. At the end of its standard input it stops the database and ends.
 */
import { createEmbeddedPostgres } from '../../../workers/embedded/postgres/embedded-postgres.ts';

const LOOK_MS = 20;
const { stateDir, keeper, pieces } = JSON.parse(process.argv[2]!) as {
  readonly stateDir: string;
  readonly keeper: string;
  readonly pieces: { readonly postgres: string; readonly bwrap: string | null };
};

const database = createEmbeddedPostgres({
  stateDir,
  keeper,
  pieces: () => Promise.resolve(pieces),
  isGone: () => false,
  onLine: (line) => process.stderr.write(`${line}\n`),
  onProblem: (message) => process.stderr.write(`${message}\n`),
});
database.start();

let printed = '';
const look = setInterval(() => {
  const line = JSON.stringify({ ...database.state(), pid: database.pid() });
  if (line !== printed) process.stdout.write(`${line}\n`);
  printed = line;
}, LOOK_MS);
process.stdin.resume().once('end', () => {
  clearInterval(look);
  void database.stop().then(() => process.exit(0));
});
