import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { makeStateFolder } from '../../test/rig/runs/state-folder.ts';
import { keepAllowedSources, readAllowedSources } from './allowed-sources.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-allowed-sources-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
});

test('a new list replaces its earlier one, and the other lists stay', () => {
  expect(readAllowedSources(stateDir)).toEqual({ watch: [], outbox: [], queue: [] });
  keepAllowedSources(stateDir, { watch: ['/srv/b', '/srv/a', '/srv/a'] });
  keepAllowedSources(stateDir, { outbox: ['db.example:5432'] });
  keepAllowedSources(stateDir, { queue: ['nats.example:4222', '[::1]:5', 'nats.example:4222'] });
  expect(readAllowedSources(stateDir)).toEqual({
    watch: ['/srv/a', '/srv/b'],
    outbox: ['db.example:5432'],
    queue: ['[::1]:5', 'nats.example:4222'],
  });
  keepAllowedSources(stateDir, { watch: [] });
  expect(readAllowedSources(stateDir)).toMatchObject({ watch: [], outbox: ['db.example:5432'], queue: { length: 2 } });
});

test.each([
  '',
  '[]',
  '{"watch":[]}',
  '{"watch":[],"outbox":[]}',
  '{"watch":[],"outbox":[],"queue":["a"]}',
  '{"watch":[],"outbox":[],"queue":["A:1"]}',
  '{"watch":["srv"],"outbox":[],"queue":[]}',
  '{"watch":[],"outbox":["a"],"queue":[]}',
  '{"watch":[],"outbox":["/run:5432"],"queue":[]}',
  '{"watch":[null],"outbox":[],"queue":[]}',
])('a file that holds %j allows nothing silently: it is an error with the way out', (text) => {
  writeFileSync(join(makeStateFolder(stateDir), 'sources.json'), text);
  expect(() => readAllowedSources(stateDir)).toThrow(
    /sources\.json, the folders, databases and queues .* cannot be used/,
  );
  expect(() => keepAllowedSources(stateDir, { watch: [] })).toThrow(/cannot be used/);
  keepAllowedSources(stateDir, { watch: ['/srv'], outbox: [], queue: [] });
  expect(readAllowedSources(stateDir)).toEqual({ watch: ['/srv'], outbox: [], queue: [] });
});
