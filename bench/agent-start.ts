/** How long the command line of an agent takes in a VM until it asks its model, and until it has ended a turn of one answer. */
import { Buffer } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { AGENT_WORKSPACE } from '../agents/provider.ts';
import { providerOf } from '../agents/registry.ts';
import { putAgentFiles } from '../activities/agent/command.ts';
import { type AgentLayer, agentProgram } from '../activities/ports/agent-layers.ts';
import type { LlmPlan } from '../domain/plan/plan.ts';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import { type FakeModel, startFakeModel } from './fake-model/fake-model.ts';
import type { Arm } from './measure.ts';

const never = new AbortController().signal;
const PROMPT = Buffer.from('Say hello.');
/** The host as a guest names it. */
const HOST = '10.0.2.2';
const MODELS: Readonly<Record<AgentLayer, string>> = { claude: 'claude-sonnet-4-5', codex: 'gpt-5' };
const KEY_OF_NOBODY = { ANTHROPIC_API_KEY: 'sk-invalid', OPENAI_API_KEY: 'sk-invalid' };

export interface AskedModel extends AsyncDisposable {
  readonly port: number;
  /**
   * Returns when the first call since the last question arrived, in milliseconds of `performance.now()`.
   * @throws Error if no call arrived
   */
  takeFirstCallMs(): number;
}

/** Answers at once, and with one message. */
export async function startAskedModel(): Promise<AskedModel> {
  let firstCallMs: number | null = null;
  const model: FakeModel = await startFakeModel(() => {
    firstCallMs ??= performance.now();
    return { say: 'Hello.' };
  });
  return {
    port: model.port,
    takeFirstCallMs() {
      if (firstCallMs === null) throw new Error('the command line did not ask its model');
      const taken = firstCallMs;
      firstCallMs = null;
      return taken;
    },
    [Symbol.asyncDispose]: () => model[Symbol.asyncDispose](),
  };
}

/** The call is the one of a stage; its VM reaches the model as a service. */
export function agentStartArm(layer: AgentLayer, vm: Sandbox, model: AskedModel): Arm<'toFirstCallMs' | 'turnMs'> {
  const llm: LlmPlan = {
    provider: layer,
    model: MODELS[layer],
    baseUrl: `http://${HOST}:${model.port}${layer === 'codex' ? '/v1' : ''}`,
    apiKeyEnv: null,
    credentialProxy: false,
  };
  const command = providerOf(llm).command({
    prompt: PROMPT.toString(),
    llm,
    skills: [],
    outputSchema: undefined,
    limits: {},
    resume: null,
  });
  return {
    name: layer,
    async round() {
      await putAgentFiles(vm, command, never);
      const began = performance.now();
      const exec = await vm.exec(
        {
          key: randomUUID(),
          program: agentProgram(layer),
          args: command.args,
          env: { ...command.env, ...KEY_OF_NOBODY },
          cwd: AGENT_WORKSPACE,
          stdin: { sizeBytes: PROMPT.byteLength, open: (offset) => toStream(PROMPT.subarray(offset)) },
          timeoutMs: 300_000,
          maxOutputBytes: 1024 * 1024,
        },
        never,
      );
      const exit = await exec.wait(never);
      const turnMs = performance.now() - began;
      await exec.acknowledge();
      if (exit.exitCode !== 0) throw new Error(`${layer} ended with ${exit.exitCode}: ${exit.message}`);
      return { toFirstCallMs: model.takeFirstCallMs() - began, turnMs };
    },
  };
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
