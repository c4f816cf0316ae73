import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { makeStateFolder } from '../../test/rig/runs/state-folder.ts';
import { keepNotifyHosts, readNotifyHosts } from './notify-hosts.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-notify-hosts-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
});

test('new hosts replace the old ones', () => {
  expect(readNotifyHosts(stateDir)).toEqual([]);
  keepNotifyHosts(stateDir, ['ops.internal', '10.1.2.3:80']);
  expect(readNotifyHosts(stateDir)).toEqual(['ops.internal', '10.1.2.3:80']);
  keepNotifyHosts(stateDir, []);
  expect(readNotifyHosts(stateDir)).toEqual([]);
});

test.each(['', '{', '[]', '{"hosts":"a"}', '{"hosts":[1]}'])(
  'a file with %j opens no host, and is an error',
  (text) => {
    writeFileSync(join(makeStateFolder(stateDir), 'notify.json'), text);
    expect(() => readNotifyHosts(stateDir)).toThrow(
      /notify\.json, the hosts that notifications may reach, cannot be used/,
    );
  },
);
