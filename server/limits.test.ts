/** The table of docs/reference/api-http.md names the limits that the code has. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ADMISSION_MS } from '../app/start/start-run.ts';
import { EVENT_LIMITS } from '../domain/run/event-limits.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { UPLOAD_LIMITS } from '../store/uploads.ts';
import { API_LIMITS, MOST_RUNS, MOST_WAIT_SECONDS, VARIABLES_BYTES } from './limits.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
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
    '`wait`': `${MOST_WAIT_SECONDS} s`,
    '`variables`': `${VARIABLES_BYTES / KIB} KiB`,
    'a page of runs': `${MOST_RUNS}`,
    'a stream whose client does not read': `one event, at most ${EVENT_LIMITS.bytes / MIB} MiB, for ${stalledMs / 1_000} s`,
  });
});

test.each([
  ['the pause of a silent stream', `A silent stream sends a comment each ${API_LIMITS.heartbeatMs / 1_000} seconds.`],
  ['the patience with a reader', `accepts no byte for ${API_LIMITS.stalledMs / 1_000} seconds is disconnected`],
  ['the wait for admission', `or ${ADMISSION_MS / 1_000} seconds after the start`],
  ['the longest wait for an end', `\`wait=SECONDS\`, at most ${MOST_WAIT_SECONDS}, waits`],
  ['the time of an upload', `deleted ${UPLOAD_LIMITS.keptMs / 3_600_000} hours after its last use`],
  ['the size of a page', `at most ${MOST_RUNS} and by default 50`],
  ['the size of variables', `at most ${VARIABLES_BYTES / KIB} KiB together`],
])('the page names %s', (_what, text) => {
  expect(PAGE).toContain(text);
});
