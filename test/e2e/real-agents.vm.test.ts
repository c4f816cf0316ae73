/** The unmodified command line of Codex in a real VM, through the door, against a model server that plays a script. */
import { Buffer } from 'node:buffer';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type ModelScript, startFakeModel } from '../../bench/fake-model/fake-model.ts';
import { entriesBelow } from '../storm/leftovers.ts';
import { AGENTS_LIMIT_MS, needAgents } from '../rig/vms/need-agents.ts';
import { Rig } from './rig.ts';

beforeAll(async () => await needAgents('the tests of Codex in VMs', ['codex']), AGENTS_LIMIT_MS);

/** Nothing else in the run's records, events or artifacts looks like it. */
const KEY = 'sk-canary-5f1c93d7a2';

const edits = (port: number): string => `api_version: v1
kind: pipeline
name: edits
llm: { provider: codex, model: gpt-5, base_url: "http://127.0.0.1:${port}/v1" }
pipeline:
  boxes:
    - name: write
      prompt: Write the file notes.txt.
      skills: [{ name: canary-skill-7b1, content: Write sentences of quux-9c2f words. }]
      outputs: [{ name: notes, guest: /workspace/notes.txt }]
    - name: read
      inputs: [{ from: notes, guest: /workspace/notes }]
      run: { program: cat, args: [/workspace/input.json, /workspace/notes/notes.txt] }
`;

const WRITES: ModelScript = ({ turn }) =>
  turn === 0
    ? { run: 'id -un > notes.txt; ls .claude/skills/canary-skill-7b1 >> notes.txt; echo "$OPENAI_API_KEY"' }
    : { say: 'The notes are written.' };

test('codex edits files in its VM and answers; its key is in the requests and nowhere else', async () => {
  await using model = await startFakeModel(WRITES);
  await using rig = new Rig({ OPENAI_API_KEY: KEY });
  const run = await rig.cli('run', rig.spec('spec.yaml', edits(model.port)), '--run-id', 'edits', '--json');
  expect(run.code, run.stderr).toBe(0);
  const json = JSON.parse(run.stdout) as { readonly outputText: string; readonly stages: readonly object[] };
  expect(json.outputText).toBe('The notes are written.sandbox\nSKILL.md\n');
  expect(json.stages[0]).toMatchObject({
    id: 'write',
    isolation: 'microvm',
    usage: { inputTokens: 2_000, outputTokens: 40 },
  });
  expect(json).toMatchObject({ mockAgents: [] });
  expect(model.requests.length).toBe(2);
  for (const { headers } of model.requests) expect(headers['authorization']).toBe(`Bearer ${KEY}`);
  // Its offer of a skill is in no other text that it has.
  expect(model.requests[0]!.body).toContain('- canary-skill-7b1: Write sentences of quux-9c2f words.');

  const log = await rig.cli('logs', 'edits', '--stage', 'write');
  expect(log.stdout).toContain('The notes are written.');
  expect(log.stdout).toContain('echo "$OPENAI_API_KEY"');
  const raw = await rig.cli('logs', 'edits', '--stage', 'write', '--raw');
  expect(raw.stdout).toContain('[redacted]');
  const status = await rig.cli('status', 'edits', '--json');
  for (const { stdout } of [run, log, raw, status]) expect(stdout).not.toContain(KEY);
  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, [KEY])).toEqual([]);
  expect(filesWith(rig.stateDir, ['The notes are written.']).length, 'the control').toBeGreaterThan(0);
});

const part = (text: string): string => Buffer.from(text).toString('base64url');
/** Has the form of OpenAI's tokens. */
const ACCESS = [
  part('{"alg":"RS256"}'),
  part(`{"exp":${Math.floor(Date.now() / 1000) + 36_000},"canary":"access-7c1d"}`),
  part('signed by nobody at all'),
].join('.');
const REFRESH = 'rt-canary-90b3f5c2a1';

const subscribed = (port: number): string => `api_version: v1
kind: agent
name: subscribed
llm: { provider: codex-personal, model: gpt-5, base_url: "http://127.0.0.1:${port}/backend-api/codex" }
sandbox: { disk_mb: 128 }
agent: { prompt: Look at your login., timeout_secs: 600 }
`;

/**
 * The ways in which an agent may print its login by mistake: the whole login, only a token, as JSON in JSON, in base64.
 */
const LOOKS = String.raw`
set -e
at=$(readlink -f ~/.codex/auth.json); stat -c '%n %U %a' "$at"; grep -c ' /run/credentials tmpfs ' /proc/mounts
env | grep -c CODEX_AUTH_JSON || true
cat "$at"; echo; base64 -w 0 < "$at"; echo; sed 's/"/\\"/g' "$at"; echo
sed 's/.*"access_token":"\([^"]*\)".*/\1/' "$at" > /tmp/token; cat /tmp/token; base64 -w 0 /tmp/token; echo; base64 /tmp/token
`;

function filesWith(folder: string, texts: readonly string[]): readonly string[] {
  const forms = texts.flatMap((text) => [
    text,
    ...['', 'u', 'us'].map((before) => Buffer.from(`${before}${text}`).toString('base64').slice(4, -4)),
  ]);
  return entriesBelow(folder).filter((path) => {
    const file = join(folder, path);
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return false;
    const bytes = readIfThere(file);
    return forms.some((form) => bytes.includes(form));
  });
}

test('codex works by the login of a subscriber, a file in its VM’s memory, which goes nowhere else', async () => {
  let withRefresh: readonly string[] = ['nobody looked'];
  let withAccess: readonly string[] = [];
  await using rig = new Rig({ CODEX_HOME: '/nobody/is/logged/in' });
  await using model = await startFakeModel(({ turn }) => {
    if (turn > 0) withRefresh = filesWith(rig.stateDir, [REFRESH]);
    else withAccess = filesWith(rig.stateDir, [ACCESS]);
    return turn === 0 ? { run: LOOKS } : { say: 'I looked.' };
  });
  const spec = rig.spec('spec.yaml', subscribed(model.port));
  const without = await rig.cli('run', spec);
  expect(without.stderr).toContain('the spec reads `CODEX_AUTH_JSON` (stage subscribed) from the environment');

  const home = join(rig.specDir, 'codex-home');
  mkdirSync(home);
  const tokens = { id_token: `${part('{}')}.${part('{"email":"x"}')}.x`, access_token: ACCESS, refresh_token: REFRESH };
  const login = JSON.stringify({ OPENAI_API_KEY: null, tokens: { ...tokens, account_id: 'account-1' } });
  writeFileSync(join(home, 'auth.json'), login, { mode: 0o600 });
  const run = await rig.startWith({ CODEX_HOME: home }, 'run', spec, '--run-id', 'subscribed', '--json').done;
  expect(run.code, run.stderr).toBe(0);
  expect(run.stderr).toContain(`the login of Codex on this machine (${home}/auth.json), without its refresh token`);

  const asked = model.requests.filter(({ path }) => path.endsWith('/responses'));
  expect(asked).toHaveLength(2);
  for (const { headers } of model.requests) {
    expect(headers['authorization']).toBe(`Bearer ${ACCESS}`);
    expect(headers['chatgpt-account-id']).toBe('account-1');
  }
  // The result of the call, which only the model got.
  const told = asked[1]!.body;
  expect(told).toMatch(/\/run\/credentials\/codex-auth\.json sandbox 600(?:\\+n)1\\+n0\\+n/);
  expect(told).toContain(ACCESS);
  expect(told).not.toContain(REFRESH);

  const shown = [run, await rig.cli('logs', 'subscribed', '--raw'), await rig.cli('status', 'subscribed', '--json')];
  expect(shown[1]!.stdout).toContain('[redacted]');
  for (const { stdout, stderr } of shown)
    for (const form of [ACCESS, REFRESH, Buffer.from(ACCESS).toString('base64').slice(0, -4)])
      expect(stdout + stderr).not.toContain(form);
  // Found before the agent printed it: the file that was handed over, and no disk of the VM.
  expect(withAccess).toEqual(['runs/subscribed/host-variables.json']);
  expect(withRefresh).toEqual([]);
  await rig.assertNothingLeft();
  expect(filesWith(rig.stateDir, [ACCESS, REFRESH])).toEqual([]);
});

/** Empty for a file that disappears while the run continues. */
function readIfThere(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}
