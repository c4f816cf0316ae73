/** Figures of starts and lists: through the API, and by the same use-cases of this machine. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { startSpec } from '../../app/start/start-spec.ts';
import type { Machine } from '../../app/machine.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import type { Arm } from '../measure.ts';
import { findP95 } from './readers.ts';

const STARTS = 20;
const LISTS = 5;
/** No VM: the figure is about the start. */
const SPEC = `kind: workflow
name: bench
sandbox: { mode: mock, isolation: none }
workflow:
  steps:
    - { name: a, run: { program: echo, args: [x] } }
`;

export function createDirectStartArm(machine: Machine, baseDir: string): Arm<'p95Ms'> {
  return createStartArm('a start by `startSpec` in this process', async () => {
    const options = {
      params: {},
      input: null,
      runId: null,
      mock: null,
      mockAgents: false,
      variables: {},
      allowMounts: [],
      allowGit: [],
    };
    await startSpec({ ...options, spec: SPEC, baseDir }, () => undefined, machine);
  });
}

export function createApiStartArm(socket: string, baseDir: string): Arm<'p95Ms'> {
  const body = JSON.stringify({ spec: SPEC, baseDir });
  return createStartArm('a start through the API', async () => {
    const sent = request({
      socketPath: socket,
      path: '/api/v1/runs',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    if (response.statusCode !== 201) throw new Error(`the start has the status ${response.statusCode}`);
  });
}

function createStartArm(name: string, start: () => Promise<void>): Arm<'p95Ms'> {
  const measureRound = async () => {
    const times: number[] = [];
    for (let count = 0; count < STARTS; count += 1) {
      const beganMs = performance.now();
      await start();
      times.push(performance.now() - beganMs);
    }
    return { p95Ms: findP95(times) };
  };
  return { name, round: measureRound };
}

/** `voidbox runs --json` as a process. */
export function createListArm(name: string, env: NodeJS.ProcessEnv): Arm<'wallMs'> {
  const measureRound = async () => {
    const beganMs = performance.now();
    for (let count = 0; count < LISTS; count += 1) {
      const child = spawn(process.execPath, [join(findPackageRoot(), 'bin', 'voidbox.js'), 'runs', '--json'], {
        env,
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      const [code] = (await once(child, 'exit')) as [number];
      if (code !== 0) throw new Error(`voidbox runs ended with ${code}`);
    }
    return { wallMs: (performance.now() - beganMs) / LISTS };
  };
  return { name, round: measureRound };
}
