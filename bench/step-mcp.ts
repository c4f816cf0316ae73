/** Advances over MCP: a server of the bundled skill on stdio, and a client that does no more than write lines and read them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { LOOP_STEP, loopAnswer } from './loop-skill.ts';
import { type Arm, processCpuMs } from './measure.ts';
import { type AdvanceMeasure, count } from './steps.ts';

/** CPU time is counted in steps of 10 ms: short sessions are repeated until it says something. */
const LEAST_ADVANCES = 1_000;

export interface McpBench extends Disposable {
  arm(steps: number): Arm<AdvanceMeasure>;
}

export async function startMcp(script: string): Promise<McpBench> {
  const child = spawn(process.execPath, [script, 'mcp'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const onExit = (): void => void child.kill('SIGKILL');
  process.once('exit', onExit);
  const ask = lineClient(child);
  await ask('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'bench', version: '1' },
  });
  const call = async (
    name: string,
    args: Readonly<Record<string, unknown>>,
  ): Promise<Readonly<Record<string, unknown>>> => {
    const { structuredContent } = (await ask('tools/call', { name, arguments: args })) as {
      readonly structuredContent: Record<string, unknown>;
    };
    if (structuredContent['status'] !== 'prompt')
      throw new Error(`${name} gave ${JSON.stringify(structuredContent).slice(0, 300)}`);
    return structuredContent;
  };
  return {
    arm: (steps) => ({
      name: `${count(steps)} steps`,
      async round() {
        const sessions = Math.max(1, Math.ceil(LEAST_ADVANCES / steps));
        let [wallMs, cpuMs] = [0, 0];
        for (let i = 0; i < sessions; i++) {
          const { session } = await call('start', {});
          const [cpuBefore, began] = [processCpuMs(child.pid!), performance.now()];
          for (let index = 0; index < steps; index++)
            await call('advance', { session, step: LOOP_STEP, output: loopAnswer(index) });
          wallMs += performance.now() - began;
          cpuMs += processCpuMs(child.pid!) - cpuBefore;
          await ask('tools/call', { name: 'advance', arguments: { session, step: LOOP_STEP, output: loopAnswer(-1) } });
          await ask('tools/call', { name: 'advance', arguments: { session, step: 'end', output: { text: 'bye' } } });
        }
        return { wallMs: wallMs / steps / sessions, cpuMs: cpuMs / steps / sessions };
      },
    }),
    [Symbol.dispose]() {
      process.off('exit', onExit);
      child.kill('SIGKILL');
    },
  };
}

/** One question at a time. */
function lineClient(child: ChildProcess): (method: string, params: unknown) => Promise<unknown> {
  let id = 0;
  let receive: (answer: { readonly result?: unknown; readonly error?: unknown }) => void = () => undefined;
  createInterface({ input: child.stdout! }).on('line', (line) =>
    receive(JSON.parse(line) as { readonly result?: unknown }),
  );
  return (method, params) =>
    new Promise((resolve, reject) => {
      receive = ({ result, error }) =>
        error === undefined ? resolve(result) : reject(new Error(JSON.stringify(error)));
      child.once('exit', () => reject(new Error('the MCP server has ended')));
      child.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })}\n`);
    });
}
