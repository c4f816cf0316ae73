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

test('a new list replaces its earlier one, and the other list stays', () => {
  expect(readAllowedSources(stateDir)).toEqual({ watch: [], outbox: [] });
  keepAllowedSources(stateDir, { watch: ['/srv/b', '/srv/a', '/srv/a'] });
  keepAllowedSources(stateDir, { outbox: ['db.example:5432'] });
  expect(readAllowedSources(stateDir)).toEqual({ watch: ['/srv/a', '/srv/b'], outbox: ['db.example:5432'] });
  keepAllowedSources(stateDir, { watch: [] });
  expect(readAllowedSources(stateDir)).toEqual({ watch: [], outbox: ['db.example:5432'] });
});

test.each([
  '',
  '[]',
  '{"watch":[]}',
  '{"watch":["srv"],"outbox":[]}',
  '{"watch":[],"outbox":["a"]}',
  '{"watch":[],"outbox":["/run:5432"]}',
  '{"watch":[null],"outbox":[]}',
])('a file that holds %j allows nothing silently: it is an error with the way out', (text) => {
  writeFileSync(join(makeStateFolder(stateDir), 'sources.json'), text);
  expect(() => readAllowedSources(stateDir)).toThrow(/sources\.json, the folders and databases .* cannot be used/);
  expect(() => keepAllowedSources(stateDir, { watch: [] })).toThrow(/cannot be used/);
  keepAllowedSources(stateDir, { watch: ['/srv'], outbox: [] });
  expect(readAllowedSources(stateDir)).toEqual({ watch: ['/srv'], outbox: [] });
});
