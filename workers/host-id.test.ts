import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hostId } from './host-id.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-host-id-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function admitted(runId: string, record: string): void {
  mkdirSync(join(dir, 'runs', runId, 'records'), { recursive: true });
  writeFileSync(join(dir, 'runs', runId, 'records/admission.json'), record);
}

test('is made once and then stays', () => {
  const id = hostId(dir);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(hostId(dir)).toBe(id);
  expect(existsSync(join(dir, 'host-id.damaged'))).toBe(false);
});

test.each<[string, string | null]>([
  ['is lost', null],
  ['is empty', ''],
  ['holds something else', '\0garbage $$'],
])('comes back from the runs that were admitted under it when its file %s', (_, content) => {
  admitted('a', '{"half');
  admitted('b', '{"hostId":"../x"}');
  admitted('c', '{"hostId":"my-host-1"}');
  if (content !== null) writeFileSync(join(dir, 'host-id'), content);
  expect(hostId(dir)).toBe('my-host-1');
  expect(hostId(dir)).toBe('my-host-1');
  const aside = join(dir, 'host-id.damaged');
  expect(existsSync(aside) ? readFileSync(aside, 'utf8') : null).toBe(content);
});

test('is a new one where no run says the old one, also in the place of a folder', () => {
  mkdirSync(join(dir, 'host-id'));
  const id = hostId(dir);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(hostId(dir)).toBe(id);
});
