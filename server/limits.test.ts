/** The table of docs/reference/api-http.md names the limits that the code has. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MOST_TOKEN_GROUPS, MOST_TOKEN_LIFE_MS, MOST_TOKEN_REPOSITORIES } from '../app/access/tokens.ts';
import { MAX_TAIL_LINES } from '../app/lines/log-lines.ts';
import { MOST_ACTIONS } from '../app/service/act-on-runs.ts';
import { MOST_PREVIOUS_KEPT_MS, MOST_SECRET_DEPLOYMENTS, PREVIOUS_KEPT_MS } from '../app/secrets/change-secrets.ts';
import { MOST_QUESTIONS } from '../app/service/open-questions.ts';
import { KEY_CHARACTERS } from '../app/start/start-keyed.ts';
import { ADMISSION_MS } from '../app/start/start-run.ts';
import { MOST_SCANNED } from '../app/sessions/local-sessions.ts';
import { MOST_UPLOADS } from '../app/uploads/place-uploads.ts';
import { MOST_RUN_GLOBS, RUN_GLOB_BYTES } from '../domain/access/run-glob.ts';
import { TOKEN_NAME_CHARACTERS } from '../domain/access/token-text.ts';
import { EVENT_LIMITS } from '../domain/run/event-limits.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { MOST_SECRET_BYTES, MOST_SECRETS } from '../store/triggers.ts';
import { UPLOAD_LIMITS } from '../store/uploads.ts';
import {
  API_LIMITS,
  GREP_CHARACTERS,
  MOST_AUDIT_ROWS,
  MOST_IDS,
  MOST_RUNS,
  MOST_SESSION_WAITS,
  MOST_SESSIONS,
  MOST_STAGES,
  MOST_TOKENS,
  MOST_WAIT_SECONDS,
  SESSION_WAIT_SECONDS,
  SINCE_CHARACTERS,
  STAGE_CHARACTERS,
  VARIABLES_BYTES,
} from './limits.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const DAY_MS = 24 * 60 * 60_000;
const PAGE = readFileSync(join(findPackageRoot(), 'docs/reference/api-http.md'), 'utf8');

function readTable(heading: string): Readonly<Record<string, string>> {
  const section = PAGE.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
  const rows = [...section.matchAll(/^\| (.+?) \| (.+?) \|$/gm)];
  return Object.fromEntries(rows.map(([, what, limit]) => [what!, limit!]));
}

test('the page names the limits of the code', () => {
  const { bodyBytes, bodyDepth, requestMs, headerBytes, headersMs, uploadPauseMs, connections, stalledMs } = API_LIMITS;
  expect(readTable('Limits')).toMatchObject({
    'a JSON body': `${bodyBytes / MIB} MiB, ${bodyDepth} levels of JSON, within ${requestMs / 1_000} s`,
    headers: `${headerBytes / KIB} KiB, within ${headersMs / 1_000} s`,
    'an upload': `${UPLOAD_LIMITS.blobBytes / GIB} GiB, and no pause of ${uploadPauseMs / 1_000} s`,
    'all uploads': `${UPLOAD_LIMITS.totalBytes / GIB} GiB; each counts as at least ${UPLOAD_LIMITS.leastBytes / MIB} MiB`,
    connections: connections.toLocaleString('en'),
    'connections [over TCP](#over-tcp)': `${API_LIMITS.tcpConnections} of them`,
    'a handshake of TLS': `${API_LIMITS.handshakeMs / 1_000} s`,
    secrets: `${MOST_SECRETS.toLocaleString('en')}; each ${MOST_SECRET_BYTES / KIB} KiB, and at most ${MOST_SECRET_DEPLOYMENTS} deployments in one request`,
    '`wait`': `${MOST_WAIT_SECONDS} s`,
    '`variables`': `${VARIABLES_BYTES / KIB} KiB`,
    'requests of a token, or of an address without a valid token': `${API_LIMITS.requestsPerSecond} in a second; then 429 with \`Retry-After\``,
    'a token': `${TOKEN_NAME_CHARACTERS} characters of a name, ${MOST_RUN_GLOBS} patterns of ${RUN_GLOB_BYTES.toLocaleString('en')} bytes, ${MOST_TOKEN_GROUPS} groups, ${MOST_TOKEN_REPOSITORIES} repositories, ${(MOST_TOKEN_LIFE_MS / DAY_MS).toLocaleString('en')} days`,
    'runs of one `POST /runs/actions`': MOST_ACTIONS.toLocaleString('en'),
    'listed sessions': `${MOST_SESSIONS.toLocaleString('en')}; for a token with patterns, among the first ${MOST_SCANNED.toLocaleString('en')}`,
    'answers of sessions for which the service waits': `${MOST_SESSION_WAITS}; then 429`,
    'listed questions': MOST_QUESTIONS.toLocaleString('en'),
    'uploads of one start': `${MOST_UPLOADS}`,
    'an `Idempotency-Key`': `${KEY_CHARACTERS} characters`,
    'a page of runs, tokens, deliveries or notifications': `${MOST_RUNS}`,
    'a page of the audit log, or of ids of runs': MOST_IDS.toLocaleString('en'),
    'a page of stages': `${MOST_STAGES}`,
    '`grep`, `stage`, `since` of events and logs': `${GREP_CHARACTERS}, ${STAGE_CHARACTERS.toLocaleString('en')} and ${SINCE_CHARACTERS} characters`,
    '`tail`': MAX_TAIL_LINES.toLocaleString('en'),
    'a stream of lines whose client does not read': `the lines of one event, at most ${(64 * KIB).toLocaleString('en')}, for ${stalledMs / 1_000} s`,
    'a stream whose client does not read': `one event, at most ${EVENT_LIMITS.bytes / MIB} MiB, for ${stalledMs / 1_000} s`,
  });
});

test('pages that share a row of the page have one limit', () => {
  expect([MOST_TOKENS, MOST_AUDIT_ROWS]).toEqual([MOST_RUNS, MOST_IDS]);
});

test.each([
  ['the pause of a silent stream', `A silent stream sends a comment each ${API_LIMITS.heartbeatMs / 1_000} seconds.`],
  ['the patience with a reader', `accepts no byte for ${API_LIMITS.stalledMs / 1_000} seconds is disconnected`],
  ['the wait for admission', `or ${ADMISSION_MS / 1_000} seconds after the start`],
  ['the longest wait for an end', `\`wait=SECONDS\`, at most ${MOST_WAIT_SECONDS}, waits`],
  ['the wait for a session', `at most ${MOST_WAIT_SECONDS} and by default ${SESSION_WAIT_SECONDS}, is the time`],
  ['the time of an upload', `deleted ${UPLOAD_LIMITS.keptMs / 3_600_000} hours after its last use`],
  ['the size of a page', `at most ${MOST_RUNS} and by default 50`],
  [
    'the time of a value before a rotation',
    `at most ${MOST_PREVIOUS_KEPT_MS / DAY_MS} days and by default ${PREVIOUS_KEPT_MS / 3_600_000} hours`,
  ],
  ['the size of variables', `at most ${VARIABLES_BYTES / KIB} KiB together`],
])('the page names %s', (_what, text) => {
  expect(PAGE).toContain(text);
});
