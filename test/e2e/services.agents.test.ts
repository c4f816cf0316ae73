/**
 * The unmodified command lines of Codex and Claude as services, in real VMs, against a model that never ends its answer
 * and streams slowly. The tests read their work while they serve, kill their worker, and end them by a cancel.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type FakeModel, type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { Rig, until } from './rig.ts';

const KEYS = { OPENAI_API_KEY: 'sk-of-the-lane', ANTHROPIC_API_KEY: 'sk-ant-of-the-lane' };

/** Each round is a call of the model that takes two seconds and more, and a report that replaces the one before. */
const WATCHES: ModelScript = ({ turn }) => ({
  saying: `I begin round ${turn} of the watch.`,
  everyMs: 300,
  run: `echo '{"round": ${turn}}' > r.new && mv r.new report.json && sleep 1`,
});

const watch = (llm: string): string => `api_version: v1
kind: agent
name: watch
llm: ${llm}
agent:
  prompt: Watch, and do not answer.
  mode: service
  output_file: /workspace/report.json
`;

const SERVED = [
  ['codex', (port: number) => `{ provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }`],
  ['claude', (port: number) => `{ provider: claude, base_url: "http://127.0.0.1:${port}" }`],
] as const;

/** A boot, the start of a command line, and calls of a model, all on an emulated CPU beside other work. */
const ROUND_LIMIT_MS = 120_000;

/** Both command lines ask their server for other things too. */
const callsOf = ({ requests }: FakeModel): readonly string[] =>
  requests
    .filter(({ path, body }) => /\/(?:messages|responses)$/.test(path) && body.includes('do not answer'))
    .map(({ body }) => body);

async function roundIn(rig: Rig): Promise<number> {
  const { stdout, stderr } = await rig.cli('artifacts', 'watch', 'get', 'watch', '-o', '-');
  expect(stdout, stderr).toMatch(/^\{"round": \d+\}\n$/);
  return (JSON.parse(stdout) as { readonly round: number }).round;
}

test.each(SERVED)(
  '%s serves: its work is readable during that time, also after its worker died, and a cancel ends it',
  async (_name, llmAt) => {
    await using model = await startFakeModel(WATCHES);
    await using rig = new Rig(KEYS);
    await rig.launch(rig.spec('spec.yaml', watch(llmAt(model.port))), 'watch');
    await rig.eventOf('watch', 'stage-published', ROUND_LIMIT_MS);
    const before = await roundIn(rig);
    expect((await rig.cli('logs', 'watch')).stdout, 'while it serves').toContain('I begin round 0 of the watch.');
    expect((await rig.cli('logs', 'watch', '--raw')).stdout, 'what its command line prints').toContain('round 0');
    expect(JSON.parse((await rig.cli('status', 'watch', '--json')).stdout)).toMatchObject({ state: 'running' });

    rig.kill((await rig.liveStack()).workerPid);
    await rig.eventOf('watch', 'stage-reattached', ROUND_LIMIT_MS);
    await until('a later report', ROUND_LIMIT_MS, async () => (await roundIn(rig)) > before + 1, 500);
    const events = await rig.events('watch');
    expect(events.filter(({ body }) => body.type === 'stage-started')).toHaveLength(1);
    const said = events.flatMap(({ body }) => (body.type === 'agent-text' ? [body.text] : []));
    expect(said, 'each once, in their order').toEqual(said.map((_, n) => `I begin round ${n} of the watch.`));
    expect(new Set(callsOf(model)).size, 'the model is asked nothing twice').toBe(callsOf(model).length);

    expect((await rig.cli('cancel', 'watch')).stdout).toContain('cancelled');
    expect((await rig.finish('watch')).outcome.state).toBe('cancelled');
    const asked = callsOf(model).length;
    const { state, outputText } = JSON.parse((await rig.cli('result', 'watch', '--json')).stdout) as {
      readonly state: string;
      readonly outputText: string;
    };
    expect(state).toBe('cancelled');
    expect((JSON.parse(outputText) as { readonly round: number }).round).toBeGreaterThan(before + 1);
    const transcript = await rig.cli('artifacts', 'watch', 'get', 'watch.transcript.jsonl', '-o', '-');
    expect(transcript.stdout, transcript.stderr).toContain(`I begin round ${before + 1} of the watch.`);
    await rig.assertNothingLeft();
    await sleep(3_000);
    expect(callsOf(model), 'nobody asks on').toHaveLength(asked);
  },
);
