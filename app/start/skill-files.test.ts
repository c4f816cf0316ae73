import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';

let dir: string;
let variables: Record<string, string>;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-skill-files-')));
  variables = { VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['specs', 'skills']) mkdirSync(join(dir, name));
  writeFileSync(join(dir, 'skills/review.md'), 'Be kind.');
  const skills = 'skills: ["file:skills/review.md", "file:gone.md"]';
  writeFileSync(
    join(dir, 'specs/agent.yaml'),
    `kind: agent\nname: reviewer\nagent:\n  prompt: Review.\n  mock: { output: fine }\n  ${skills}\n`,
  );
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('a skill that lies only below the working directory is a warning of `validate`, at its place', async () => {
  const { code, stdout } = await typeCommand(['validate', 'specs/agent.yaml', '--json'], dir, variables);
  expect(code).toBe(0);
  const { onThisHost } = JSON.parse(stdout) as { readonly onThisHost: { readonly missingFiles: unknown } };
  const start = `relative paths start from the spec's folder, ${dir}/specs`;
  expect(onThisHost.missingFiles).toEqual([
    {
      code: 'cli/skill-missing',
      severity: 'warning',
      message: `the agent skill ${dir}/specs/skills/review.md of stage reviewer is not a file of this machine; it is only below the working directory: ${dir}/skills/review.md`,
      remedy: `Move it there, or resolve relative paths from the working folder: --base-dir ${dir}`,
      file: 'specs/agent.yaml',
      line: 6,
      column: 12,
    },
    {
      code: 'cli/skill-missing',
      severity: 'warning',
      message: `the agent skill ${dir}/specs/gone.md of stage reviewer is not a file of this machine`,
      remedy: `Create it, or correct the path; ${start}`,
      file: 'specs/agent.yaml',
      line: 6,
      column: 37,
    },
  ]);
  const text = await typeCommand(['validate', 'specs/agent.yaml'], dir, variables);
  expect(text.stderr).toContain('specs/agent.yaml:6:12');
  const run = await typeCommand(['run', 'specs/agent.yaml', '--mock-agents'], dir, variables);
  expect([run.code, run.stderr]).toEqual([
    2,
    expect.stringMatching(/^error: specs\/agent\.yaml:6:12: the agent skill .* is not a file/),
  ]);
});

test('this build can run an agent with a skill that is a file', async () => {
  writeFileSync(
    join(dir, 'agent.yaml'),
    'kind: agent\nname: a\nagent: { prompt: hi, skills: ["file:skills/review.md"] }\n',
  );
  for (const command of ['validate', 'inspect']) {
    const { stdout } = await typeCommand([command, 'agent.yaml', '--json'], dir, variables);
    expect([command, (JSON.parse(stdout) as { readonly unsupported: unknown }).unsupported]).toEqual([command, []]);
  }
  const own = { ...variables, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const { stdout } = await typeCommand(['validate', 'agent.yaml', '--json'], dir, own);
  expect(JSON.parse(stdout)).toMatchObject({ unsupported: [] });
  rmSync(join(dir, 'skills/review.md'));
  const gone = await typeCommand(['validate', 'agent.yaml', '--json'], dir, own);
  expect(JSON.parse(gone.stdout)).toMatchObject({ unsupported: [{ stage: 'a' }] });
});

test('`validate` reports a missing skill of the agent that answers a step machine at its place, too', async () => {
  writeFileSync(join(dir, 'specs/skill.ts'), 'throw new Error("its code is not run");\n');
  const agent = 'agent: { skills: ["file:skills/review.md"] }';
  writeFileSync(
    join(dir, 'specs/machine.yaml'),
    `kind: workflow\nname: m\nworkflow:\n  steps:\n    - { name: plan, skill: { use: ., ${agent} } }\n`,
  );
  const { code, stdout } = await typeCommand(['validate', 'specs/machine.yaml', '--json'], dir, variables);
  expect(code).toBe(0);
  expect((JSON.parse(stdout) as { readonly onThisHost: unknown }).onThisHost).toMatchObject({
    missingFiles: [
      {
        message: expect.stringContaining('of stage plan is not a file of this machine; it is only below') as string,
        file: 'specs/machine.yaml',
        line: 5,
        column: 56,
      },
    ],
  });
});

test('`run` refuses it, before it asks for the agent’s key', async () => {
  const { code, stderr } = await typeCommand(['run', 'specs/agent.yaml', '--json'], dir, variables);
  expect(code).toBe(2);
  expect(stderr).toContain('"code":"cli/skill-missing"');
  expect(stderr).toContain(`${dir}/skills/review.md`);
});

test('a file that is neither below the spec nor in an allowed folder is refused, also by a link; a file in an allowed folder is accepted', async () => {
  const secret = join(dir, 'secret.md');
  writeFileSync(secret, 'the key');
  symlinkSync(secret, join(dir, 'specs/link.md'));
  const spec = (path: string): void =>
    writeFileSync(
      join(dir, 'specs/agent.yaml'),
      `kind: agent\nname: reviewer\nagent:\n  prompt: Review.\n  mock: { output: fine }\n  skills: ["file:${path}"]\n`,
    );
  for (const path of [secret, '../secret.md', 'link.md', '/proc/self/environ']) {
    spec(path);
    const validated = await typeCommand(['validate', 'specs/agent.yaml', '--json'], dir, variables);
    expect(JSON.parse(validated.stdout), path).toMatchObject({
      onThisHost: { missingFiles: [{ code: 'cli/skill-refused', severity: 'warning', line: 6 }] },
    });
    // With a server of your own this host reads the file, too.
    for (const more of [{}, { TEMPORAL_ADDRESS: '127.0.0.1:1' }]) {
      const { code, stderr } = await typeCommand(['run', 'specs/agent.yaml', '--json'], dir, { ...variables, ...more });
      expect([code, stderr], path).toEqual([2, expect.stringContaining('"code":"cli/skill-refused"')]);
    }
  }
  spec('../secret.md');
  const { stderr } = await typeCommand(['run', 'specs/agent.yaml', '--allow-mounts', dir], dir, variables);
  expect(stderr).toContain('`ANTHROPIC_API_KEY` (stage reviewer)');
});

test.each([
  ['empty', ' \n'],
  ['with a zero byte', 'a\0b'],
  ['in another encoding', Buffer.from([0x66, 0xfc, 0x72])],
])('a document that is %s is refused before a run is made of it', async (_, content) => {
  mkdirSync(join(dir, 'specs/skills'));
  writeFileSync(join(dir, 'specs/skills/review.md'), content);
  writeFileSync(join(dir, 'specs/gone.md'), 'x');
  const { code, stderr } = await typeCommand(['run', 'specs/agent.yaml', '--mock-agents'], dir, variables);
  expect([code, stderr]).toEqual([2, expect.stringContaining('skills/review.md is empty or is not UTF-8 text')]);
});

test('files that are there are no warning, and an agent without its key may be played', async () => {
  mkdirSync(join(dir, 'specs/skills'));
  for (const file of ['skills/review.md', 'gone.md']) writeFileSync(join(dir, 'specs', file), 'x');
  const validated = await typeCommand(['validate', 'specs/agent.yaml', '--json'], dir, variables);
  expect(JSON.parse(validated.stdout)).toMatchObject({ onThisHost: { missingFiles: [] } });
  const { stderr } = await typeCommand(['run', 'specs/agent.yaml'], dir, variables);
  expect(stderr).toContain('`ANTHROPIC_API_KEY` (stage reviewer)');
  expect(stderr).toContain('voidbox run FILE --mock-agents');
});

test('a bare `--mock` takes no file, and names of stages are checked before anything starts', async () => {
  writeFileSync(
    join(dir, 'plain.yaml'),
    'kind: workflow\nname: x\nworkflow: { steps: [{ name: a, run: { program: "true" } }] }\n',
  );
  const bare = await typeCommand(['run', '--mock', 'plain.yaml'], dir, variables);
  expect(bare).toMatchObject({ code: 2, stderr: expect.stringContaining('no stage has `mock`') as string });
  const named = await typeCommand(['run', 'plain.yaml', '--mock=a,zzz'], dir, variables);
  expect(named.stderr).toContain('stage a has no `mock`');
  expect(named.stderr).toContain('there is no stage zzz to mock');
});
