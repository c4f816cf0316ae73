/** Whole runs and starts of the product, whose VMs start from snapshots or boot. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { type Arm, createArm } from '../measure.ts';
import { PLAN } from '../vm.ts';

const run = promisify(execFile);

/** Short commands in a row, each in a VM of its own. */
export function makeCommandsSpec(commands: number): string {
  const names = Array.from({ length: commands }, (_, index) => `box${index}`);
  const boxes = names.map((name) => `    - { name: ${name}, run: { program: 'true' } }`);
  const stages = names.map((name) => `    - { type: box, name: ${name} }`);
  return `api_version: v1
kind: pipeline
name: commands
sandbox: { memory_mb: ${PLAN.memoryMib} }
pipeline:
  boxes:
${boxes.join('\n')}
  stages:
${stages.join('\n')}
`;
}

/** A whole run by a worker. */
export async function createRunArm(name: string, address: string, spec: string): Promise<Arm<'ms'>> {
  const client = new Client({ connection: await Connection.connect({ address }) });
  return createArm(name, async () => {
    const began = performance.now();
    const options = { taskQueue: 'voidbox', workflowId: `commands-${randomUUID()}`, args: [{ spec }] };
    const result: unknown = await client.workflow.execute('voidboxRun', options);
    if ((result as { state?: unknown } | null)?.state !== 'succeeded')
      throw new Error(`a run did not succeed: ${JSON.stringify(result)}`);
    return { ms: performance.now() - began };
  });
}

/** From the command to the prompt, with a stack that is not running. */
export function createNpmStartArm(
  name: string,
  root: string,
  variables: Readonly<Record<string, string | undefined>>,
): Arm<'seconds'> {
  const runNode = (...args: readonly string[]): Promise<unknown> =>
    run(process.execPath, args, { cwd: root, env: variables, maxBuffer: 16 * 1024 * 1024 });
  return createArm(name, async () => {
    const began = performance.now();
    await runNode(join(root, 'setup', 'bootstrap.mjs'), 'start');
    const seconds = (performance.now() - began) / 1_000;
    await runNode(join(root, 'bin', 'voidbox.js'), 'down');
    return { seconds };
  });
}
