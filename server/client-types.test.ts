/** The document of the HTTP API, and the types of `voidbox/client` that are made of it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { openUploads } from '../store/open-uploads.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { type ApiDocument, writeClientTypes } from '../test/rig/openapi/client-types.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';

const FILE = fileURLToPath(new URL('../client-api/openapi.ts', import.meta.url));
const WANTED = {
  schemas: [
    'ActionResults',
    'Answer',
    'AnswerOfStep',
    'AnswerReceipt',
    'Artifacts',
    'Blob',
    'CancelledRun',
    'CancelledSession',
    'ForkRun',
    'Health',
    'Problem',
    'Questions',
    'Readiness',
    'Result',
    'RerunPreview',
    'RetainedVms',
    'RetryRun',
    'Run',
    'RunActions',
    'RunList',
    'Session',
    'SessionResult',
    'Sessions',
    'StartedRerun',
    'StartedRun',
    'StartRun',
    'StartSession',
    'StepRecord',
    'Version',
  ],
  queries: {
    ListRunsQuery: '/api/v1/runs',
    ListSessionsQuery: '/api/v1/sessions',
    ReadLogsQuery: '/api/v1/runs/{runId}/logs',
  },
};

let document: ApiDocument;
beforeAll(async () => {
  const env = readEnvironment({ VOIDBOX_STATE_DIR: '/nonexistent', VOIDBOX_CACHE_DIR: '/nonexistent' });
  const api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), { env }),
    uploads: openUploads(env),
    access: refuseAccess,
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  document = (await (await openAsOwner(api).request('/openapi.json')).json()) as ApiDocument;
});

test('the types of `voidbox/client` match the document; UPDATE=1 writes them', () => {
  const text = writeClientTypes(document, WANTED);
  if (process.env['UPDATE'] === '1') writeFileSync(FILE, text);
  expect(readFileSync(FILE, 'utf8')).toBe(text);
});

test('keys that a body may leave out are optional in the document', () => {
  const { RetryRun, RunActions } = document.components.schemas;
  expect(RetryRun!.properties!['continue']!.required ?? []).toEqual([]);
  expect(RunActions!.properties!['filter']!.required ?? []).toEqual([]);
});

test('the result of a run is never null in the document, and the run of a start may be', () => {
  const { Result, StartedRun } = document.components.schemas;
  expect(Result!.type).toBe('object');
  expect(StartedRun!.properties!['run']!.anyOf).toContainEqual({ type: 'null' });
});

test.each([
  [{ type: 'object', oneOf: [] }, 'oneOf'],
  [{ type: 'file' }, 'file'],
  [{ enum: [1] }, '1'],
])('a schema without a type is an error: %j', (schema, word) => {
  const odd = { components: { schemas: { Odd: schema } }, paths: {} };
  expect(() => writeClientTypes(odd, { schemas: ['Odd'], queries: {} })).toThrow(word);
});
