/** Signals that arrive while a worker or a supervisor starts. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { socketFile } from '../client/embedded/control.ts';
import { hostIdFile } from '../client/vms/this-host.ts';
import { findPackageRoot } from '../setup/package-root.ts';

interface Started {
  readonly child: ChildProcess;
  readonly stderr: () => string;
  readonly ended: Promise<readonly unknown[]>;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-signal-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

function start(args: readonly string[], variables: Readonly<Record<string, string>> = {}): Started {
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...variables },
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  onTestFinished(() => void child.kill('SIGKILL'));
  return { child, stderr: () => stderr, ended: once(child, 'close') };
}

interface SilentServer {
  readonly address: string;
  readonly connections: () => number;
}

/** It takes connections and never answers. */
async function silentServer(): Promise<SilentServer> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => sockets.length,
  };
}

const WORKER = join(findPackageRoot(), 'dist/workers/main.js');
const SUPERVISOR = join(findPackageRoot(), 'dist/workers/embedded/supervisor.js');

test('a worker that waits for its server ends in order at SIGTERM', async () => {
  const stateDir = newFolder();
  const { address } = await silentServer();
  const args = ['--address', address, '--state-dir', stateDir, '--keeper', '/bin/true', '--pieces', '{}'];
  const { child, stderr, ended } = start([WORKER, '--embedded', ...args]);
  await expect.poll(() => existsSync(hostIdFile(stateDir))).toBe(true);
  child.kill('SIGTERM');
  expect(await ended, stderr()).toEqual([0, null]);
  expect(stderr()).toContain('SIGTERM: stopping');
});

test('a worker that looks for your own server ends in order at SIGTERM', async () => {
  const { address, connections } = await silentServer();
  const { child, stderr, ended } = start([WORKER, '--keeper', '/bin/true', '--pieces', '{}'], {
    TEMPORAL_ADDRESS: address,
    VOIDBOX_STATE_DIR: newFolder(),
  });
  await expect.poll(connections).toBeGreaterThan(0);
  child.kill('SIGTERM');
  expect(await ended, stderr()).toEqual([0, null]);
  expect(stderr()).toContain('SIGTERM: stopping');
});

/** In the place of `voidbox-vm tie`: notes its start, and its end by SIGTERM. A tied child that is killed notes no end. */
const KEEPER = `#!/bin/sh
trap 'echo "$$ ended" >> "$0.log"; exit 0' TERM
echo "$$ started" >> "$0.log"
for i in $(seq 600); do sleep 0.05; done
`;

/** The control socket of the supervisor opens only after its children have started and a signal has arrived. */
const LATE_SOCKET = `
const { existsSync, readFileSync } = require('node:fs');
const { Server } = require('node:net');
const listen = Server.prototype.listen;
Server.prototype.listen = function (options, ...rest) {
  if (options.path === undefined) return listen.call(this, options, ...rest);
  const look = setInterval(() => {
    const log = process.env.KEEPER_LOG;
    if (!existsSync(log) || readFileSync(log, 'utf8').split('started').length < 3) return;
    clearInterval(look);
    process.kill(process.pid, 'SIGTERM');
    setTimeout(() => listen.call(this, options, ...rest), 200);
  }, 20);
  return this;
};
`;

test('a supervisor ends the children that it has started if SIGTERM arrives before its start is over', async () => {
  const folder = newFolder();
  const [keeper, late] = [join(folder, 'keeper'), join(folder, 'late.cjs')];
  writeFileSync(keeper, KEEPER, { mode: 0o700 });
  writeFileSync(late, LATE_SOCKET);
  const pieces = JSON.stringify({ keeper, temporalCli: '/bin/true' });
  const args = ['--state-dir', folder, '--cache-dir', folder, '--build', 'b', '--pieces', pieces];
  const { stderr, ended } = start(['--require', late, SUPERVISOR, ...args], { KEEPER_LOG: `${keeper}.log` });
  expect(await ended, stderr()).toEqual([1, null]);
  const lines = readFileSync(`${keeper}.log`, 'utf8').trimEnd().split('\n').toSorted();
  const pids = [...new Set(lines.map((line) => line.split(' ')[0]))];
  expect(pids).toHaveLength(2);
  expect(lines).toEqual(pids.flatMap((pid) => [`${pid} ended`, `${pid} started`]));
  expect(existsSync(join(folder, 'logs/supervisor.log'))).toBe(true);
  expect(existsSync(socketFile(folder))).toBe(false);
});
