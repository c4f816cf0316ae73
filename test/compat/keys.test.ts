/**
 * Each key of Void-Box's grammar: Voidbox reads it. Its value reaches the plan, is refused, or is reported as a value
 * without effect.
 */
import { expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';

type Json = Record<string, unknown>;

const agent = (section: object, top: object = {}): Json => ({
  kind: 'agent',
  name: 'x',
  ...top,
  agent: { prompt: 'p', ...section },
});
const box = (more: object, other: object = {}): Json => ({
  kind: 'pipeline',
  name: 'x',
  pipeline: {
    boxes: [
      { name: 'a', prompt: 'p', outputs: [{ name: 'o' }], ...other },
      { name: 'b', prompt: 'p', ...more },
    ],
  },
});
const step = (more: object, run: object = {}, section: object = {}): Json => ({
  kind: 'workflow',
  name: 'x',
  workflow: {
    steps: [
      { name: 'a', run: { program: 'true' } },
      { name: 'b', run: { program: 'true', ...run }, ...more },
    ],
    output_step: 'b',
    ...section,
  },
});
const sandbox = (keys: object): Json => ({ ...step({}), sandbox: keys });

function compiled(spec: Json) {
  return compileText(JSON.stringify(spec), 'x.json', { baseDir: '/specs' });
}

/** A key, a spec with it, and the same without it. */
const IN_THE_PLAN: readonly (readonly [string, Json, Json])[] = [
  ['name', { ...agent({}), name: 'y' }, agent({})],
  ['kind', { kind: 'sandbox', name: 'x' }, agent({})],
  ['sandbox.mode', sandbox({ mode: 'mock' }), sandbox({})],
  ['sandbox.kernel', sandbox({ kernel: 'k' }), sandbox({})],
  ['sandbox.initramfs', sandbox({ initramfs: 'i' }), sandbox({})],
  ['sandbox.memory_mb', sandbox({ memory_mb: 3072 }), sandbox({})],
  ['sandbox.vcpus', sandbox({ vcpus: 4 }), sandbox({})],
  ['sandbox.network', sandbox({ network: true }), sandbox({})],
  ['sandbox.env', sandbox({ env: { A: 'b' } }), sandbox({})],
  ['sandbox.mounts', sandbox({ mounts: [{ host: 'd', guest: '/d' }] }), sandbox({})],
  [
    'sandbox.mounts[].mode',
    sandbox({ mounts: [{ host: 'd', guest: '/d', mode: 'rw' }] }),
    sandbox({ mounts: [{ host: 'd', guest: '/d' }] }),
  ],
  ['sandbox.image', sandbox({ image: 'alpine:3.20' }), sandbox({})],
  ['sandbox.snapshot', sandbox({ snapshot: '0f3c' }), sandbox({})],
  ['llm.provider', agent({}, { llm: { provider: 'codex' } }), agent({}, { llm: { provider: 'claude' } })],
  ['llm.model', agent({}, { llm: { provider: 'claude', model: 'm' } }), agent({}, { llm: { provider: 'claude' } })],
  [
    'llm.base_url',
    agent({}, { llm: { provider: 'claude', base_url: 'http://x' } }),
    agent({}, { llm: { provider: 'claude' } }),
  ],
  [
    'llm.api_key_env',
    agent({}, { llm: { provider: 'claude', api_key_env: 'K' } }),
    agent({}, { llm: { provider: 'claude' } }),
  ],
  [
    'llm.credential_proxy',
    agent({}, { llm: { provider: 'claude', credential_proxy: true } }),
    agent({}, { llm: { provider: 'claude' } }),
  ],
  ['agent.prompt', agent({ prompt: 'q' }), agent({})],
  ['agent.skills', agent({ skills: ['cli:jq'] }), agent({})],
  ['agent.timeout_secs', agent({ timeout_secs: 5 }), agent({})],
  ['agent.output_file', agent({ output_file: '/workspace/r' }), agent({})],
  ['agent.messaging.enabled', agent({ messaging: { enabled: true } }), agent({})],
  ['agent.mode', agent({ mode: 'interactive' }), agent({})],
  ['pipeline.boxes[].prompt', box({ prompt: 'q' }), box({})],
  ['pipeline.boxes[].skills', box({ skills: ['mcp:m'] }), box({})],
  ['pipeline.boxes[].llm', box({ llm: { provider: 'ollama' } }), box({})],
  ['pipeline.boxes[].timeout_secs', box({ timeout_secs: 5 }), box({})],
  ['pipeline.boxes[].sandbox.memory_mb', box({ sandbox: { memory_mb: 2048 } }), box({})],
  ['pipeline.boxes[].sandbox.vcpus', box({ sandbox: { vcpus: 2 } }), box({})],
  ['pipeline.boxes[].sandbox.network', box({ sandbox: { network: true } }), box({})],
  ['pipeline.boxes[].sandbox.env', box({ sandbox: { env: { A: 'b' } } }), box({})],
  ['pipeline.boxes[].sandbox.mounts', box({ sandbox: { mounts: [{ host: 'd', guest: '/d' }] } }), box({})],
  ['pipeline.boxes[].sandbox.snapshot', box({ sandbox: { snapshot: 's' } }), box({})],
  ['pipeline.boxes[].outputs[].guest', box({}, { outputs: [{ name: 'o', guest: '/workspace/o' }] }), box({})],
  ['pipeline.boxes[].inputs', box({ inputs: [{ from: 'o' }] }), box({})],
  [
    'pipeline.boxes[].inputs[].guest',
    box({ inputs: [{ from: 'o', guest: '/workspace/i' }] }),
    box({ inputs: [{ from: 'o' }] }),
  ],
  [
    'pipeline.stages',
    { ...box({}), pipeline: { ...(box({})['pipeline'] as object), stages: [{ type: 'fan_out', boxes: ['a', 'b'] }] } },
    box({}),
  ],
  ['workflow.steps[].run.program', step({}, { program: 'false' }), step({})],
  ['workflow.steps[].run.args', step({}, { args: ['x'] }), step({})],
  ['workflow.steps[].run.stdin_from', step({}, { stdin_from: 'a' }), step({})],
  ['workflow.steps[].depends_on', step({ depends_on: ['a'] }), step({})],
  ['workflow.steps[].mode', step({ mode: 'service' }), step({})],
  ['workflow.steps[].timeout_secs', step({ timeout_secs: 5 }), step({})],
  ['workflow.output_step', step({}, {}, { output_step: 'a' }), step({})],
  ['skill type:value', agent({ skills: ['remote:a/b/c'] }), agent({ skills: ['remote:a/b'] })],
  ['skill {image, mount}', agent({ skills: [{ image: 'i', mount: '/s' }] }), agent({})],
  [
    'skill {image, mount, readonly}',
    agent({ skills: [{ image: 'i', mount: '/s', readonly: false }] }),
    agent({ skills: [{ image: 'i', mount: '/s' }] }),
  ],
  [
    'skill {command, args, env}',
    agent({ skills: [{ command: 'c', args: ['x'], env: { A: 'b' } }] }),
    agent({ skills: [{ command: 'c' }] }),
  ],
  ['skill {name, content}', agent({ skills: [{ name: 'n', content: 'c' }] }), agent({})],
];

test.each(IN_THE_PLAN)('%s comes into the plan', (_key, withIt, without) => {
  const { plan, diagnostics } = compiled(withIt);
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  expect(plan).not.toEqual(compiled(without).plan);
});

test.each<[string, Json, readonly string[]]>([
  ['api_version', { api_version: 'v1', ...step({}) }, []],
  ['guest_image: ""', sandbox({ guest_image: '' }), []],
  ['guest_image', sandbox({ guest_image: 'g' }), ['warning spec/unsupported']],
  ['agent.messaging.provider_bridge', agent({ messaging: { provider_bridge: 'claude' } }), []],
  [
    'observe',
    {
      ...step({}),
      observe: {
        traces: true,
        metrics: true,
        logs: true,
        otlp_endpoint: 'x',
        service_name: 'x',
        telemetry_buffer_size: 1,
      },
    },
    ['warning spec/unsupported'],
  ],
  ['an unknown key', { ...step({}), zzz: 1 }, ['warning spec/unknown-key']],
])('%s changes nothing', (key, spec, said) => {
  const { plan, diagnostics } = compiled(spec);
  expect(diagnostics.map(({ severity, code }) => `${severity} ${code}`)).toEqual(said);
  expect(plan).toEqual(compiled(key.startsWith('agent') ? agent({}) : step({})).plan);
});

test.each<[string, Json]>([
  ['another api_version', { api_version: 'v2', ...step({}) }],
  ['a name that is no file name', { ...step({}), name: '../x' }],
  ['an unknown provider', agent({}, { llm: { provider: 'gpt' } })],
  ['an empty prompt', agent({ prompt: ' \n' })],
  ['agent without its section', { kind: 'agent', name: 'x' }],
  ['a service with a time limit', agent({ mode: 'service', output_file: '/workspace/o', timeout_secs: 5 })],
  ['a service without an output', agent({ mode: 'service' })],
  ['a service step with a time limit', step({ mode: 'service', timeout_secs: 5 })],
  ['interactive with a time limit', agent({ mode: 'interactive', timeout_secs: 5 })],
  ['no boxes', { kind: 'pipeline', name: 'x', pipeline: { boxes: [] } }],
  ['no steps', { kind: 'workflow', name: 'x', workflow: { steps: [] } }],
  ['an unknown dependency', step({ depends_on: ['gone'] })],
  ['a cycle', step({ depends_on: ['b'] })],
  ['two boxes of one name', box({ name: 'a' })],
  ['an input from nowhere', box({ inputs: [{ from: 'gone' }] })],
  ['a skill without a type', agent({ skills: ['jq'] })],
  ['a skill of an unknown type', agent({ skills: ['tool:jq'] })],
])('%s is an error', (_what, spec) => {
  expect(compiled(spec).plan).toBeNull();
});

test.each(['claude', 'Claude-Personal', 'CODEX', 'ollama', 'lm-studio', 'LMStudio', 'custom'])(
  '%s is a provider',
  (provider) => {
    expect(compiled(agent({}, { llm: { provider } })).diagnostics).toEqual([]);
  },
);
