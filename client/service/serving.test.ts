import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { announceService, listServices } from './serving.ts';

const ADDRESSES = {
  sockets: ['/run/user/1000/api.sock'],
  listeners: [{ url: 'https://127.0.0.1:7443', host: '127.0.0.1', port: 7443, tls: true, problem: null }],
};
/** The script that this process runs. */
const OWN = readFileSync('/proc/self/cmdline', 'utf8').split('\0')[1]!;
const file = (dir: string): string => join(dir, 'serving', `${process.pid}.json`);

function makeFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-serving-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

test('a service is listed with its addresses until it ends', () => {
  const dir = makeFolder();
  expect(listServices(dir, OWN)).toEqual([]);
  const announced = announceService(dir, ADDRESSES);
  expect(listServices(dir, OWN)).toEqual([{ pid: process.pid, ...ADDRESSES }]);
  announced.dispose();
  expect(listServices(dir, OWN)).toEqual([]);
  expect(existsSync(file(dir))).toBe(false);
});

test('a file of a process that has ended, or that is no service, shows nothing', () => {
  const dir = makeFolder();
  mkdirSync(join(dir, 'serving'));
  const text = JSON.stringify(ADDRESSES);
  // A process that does not have the file open, as after a new use of the pid, and one that does not exist.
  writeFileSync(file(dir), text);
  writeFileSync(join(dir, 'serving/4194999.json'), text);
  expect(listServices(dir, OWN)).toEqual([]);
  const announced = announceService(dir, ADDRESSES);
  onTestFinished(() => announced.dispose());
  expect(readdirSync(join(dir, 'serving'))).toEqual([`${process.pid}.json`]);
  expect(listServices(dir)).toEqual([]);
});

test.each(['', '{', 'null', '{"sockets":[1],"listeners":[]}', '{"sockets":[],"listeners":[{}]}', ' '.repeat(70_000)])(
  'a file that is not whole shows nothing: %j',
  (text) => {
    const dir = makeFolder();
    mkdirSync(join(dir, 'serving'));
    writeFileSync(file(dir), text);
    openSync(file(dir), 'r');
    expect(listServices(dir, OWN)).toEqual([]);
  },
);
