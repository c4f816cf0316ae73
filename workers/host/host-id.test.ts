import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hostId } from './host-id.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-host-id-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function admitted(runId: string, record: string, atSeconds?: number): void {
  const file = join(dir, 'runs', runId, 'records/admission.json');
  mkdirSync(join(dir, 'runs', runId, 'records'), { recursive: true });
  writeFileSync(file, record);
  if (atSeconds !== undefined) utimesSync(file, atSeconds, atSeconds);
}

test('the host id is made once and then stays', () => {
  const id = hostId(dir);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(hostId(dir)).toBe(id);
  expect(existsSync(join(dir, 'host-id.damaged'))).toBe(false);
});

test.each<[string, string | null]>([
  ['is lost', null],
  ['is empty', ''],
  ['holds something else', '\0garbage $$'],
])('the host id is restored from the runs that were admitted under it if its file %s', (_, content) => {
  admitted('a', '{"half');
  admitted('b', '{"hostId":"../x"}');
  admitted('c', '{"hostId":"my-host-1"}');
  if (content !== null) writeFileSync(join(dir, 'host-id'), content);
  expect(hostId(dir)).toBe('my-host-1');
  expect(hostId(dir)).toBe('my-host-1');
  const aside = join(dir, 'host-id.damaged');
  expect(existsSync(aside) ? readFileSync(aside, 'utf8') : null).toBe(content);
});

test('the host id is new if no run names the old one, also if its path is a folder', () => {
  mkdirSync(join(dir, 'host-id'));
  const id = hostId(dir);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(hostId(dir)).toBe(id);
});

test('a host id with a changed letter is replaced by the id of the admitted runs', () => {
  admitted('a', '{"hostId":"my-host-1"}');
  writeFileSync(join(dir, 'host-id'), 'my-host-3\n');
  expect(hostId(dir)).toBe('my-host-1');
  expect(hostId(dir)).toBe('my-host-1');
  expect(readFileSync(join(dir, 'host-id.damaged'), 'utf8')).toBe('my-host-3\n');
});

test("the host id stays if any run names it; if it is lost, the newest run's id is used", () => {
  admitted('old', '{"hostId":"old-host"}', 1_000);
  admitted('new', '{"hostId":"new-host"}', 2_000);
  admitted('older', '{"hostId":"older-host"}', 500);
  for (const id of ['old-host', 'new-host', 'older-host']) {
    writeFileSync(join(dir, 'host-id'), `${id}\n`);
    expect(hostId(dir)).toBe(id);
  }
  rmSync(join(dir, 'host-id'));
  expect(hostId(dir)).toBe('new-host');
});
