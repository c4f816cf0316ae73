/** An agent in a VM with `image: dev`, by the real command line. */
import { expect, test } from 'vitest';
import { Rig } from './rig.ts';

const script = JSON.stringify([
  { say: 'I look around.' },
  {
    run: 'git init -q r && cd r && python3 -c "print(6 * 7)" > answer && git add . && git -c user.name=a -c user.email=a@b commit -qm answer',
  },
  {
    run: "cd r && node -e \"console.log(require('fs').readFileSync('answer', 'utf8').trim())\" && rg -c 42 answer && git log --format=%s",
  },
  { result: 'committed' },
]).replaceAll("'", "''");

const SPEC = `kind: pipeline
name: dev-agent
sandbox: { image: dev, memory_mb: 512 }
pipeline:
  boxes:
    - name: work
      llm: { provider: claude }
      prompt: Commit the answer.
      skills: [{ name: style, content: Write short sentences. }]
      env: { MOCK_AGENT_SCRIPT: '${script}' }
`;

/** Of making the image too, where the machine does not have it. */
const LIMIT_MS = 1_200_000;

test('an agent that is played works with the programs of the dev image', { timeout: LIMIT_MS }, async () => {
  await using rig = new Rig();
  const run = await rig.cli('run', rig.spec('spec.yaml', SPEC), '--mock-agents', '--run-id', 'dev-agent', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText, stages } = JSON.parse(run.stdout) as { outputText: string; stages: readonly object[] };
  expect(outputText).toContain('committed');
  expect(stages).toMatchObject([{ id: 'work', isolation: 'microvm' }]);
  const raw = await rig.cli('logs', 'dev-agent', '--stage', 'work', '--raw');
  expect(raw.stdout).toMatch(/42\\n1\\nanswer/);
  await rig.assertNothingLeft();
});
