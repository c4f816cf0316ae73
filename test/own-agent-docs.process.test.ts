/**
 * The code of an own agent in docs/reference/agents.md compiles, is registered as the page says, and reads the stream that the
 * page shows.
 */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import type { AgentProvider } from '../agents/provider.ts';
import type * as Registry from '../agents/registry.ts';
import type * as Credentials from '../domain/agent/credentials.ts';
import type { LlmPlan, LlmProvider } from '../domain/plan/plan.ts';
import { compileText } from '../domain/language/load.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { TemporaryFolder } from './rig/skills/skill-command.ts';

const ROOT = findPackageRoot();
const SECTION = readFileSync(join(ROOT, 'docs/reference/agents.md'), 'utf8')
  .split('\n## Your own agent\n')[1]!
  .split('\n## ')[0]!;
const run = promisify(execFile);

function blocksOf(language: string): readonly string[] {
  return [...SECTION.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, code]) => code!);
}

it('its specs have no mistakes', () => {
  const specs = blocksOf('yaml');
  expect(specs).toHaveLength(2);
  const found = specs.flatMap((text) => compileText(text, 'own.yaml', { baseDir: '/specs' }).diagnostics);
  expect(found).toEqual([]);
});

/** The file contains each part of a diff once. */
function register(folder: string, diff: string): void {
  const parts = diff.split(/^--- /m).slice(1);
  for (const part of parts) {
    const [path = '', ...lines] = part.trimEnd().split('\n');
    const side = (mark: string): string =>
      lines.flatMap((line) => (line.startsWith(' ') || line.startsWith(mark) ? [`${line.slice(1)}\n`] : [])).join('');
    const file = join(folder, path);
    const pieces = readFileSync(file, 'utf8').split(side('-'));
    expect(pieces, `${path}: ${side('-')}`).toHaveLength(2);
    writeFileSync(file, pieces.join(side('+')));
  }
}

async function compiled(folder: string, outDir: string): Promise<string> {
  const compilerOptions = {
    composite: false,
    incremental: false,
    rootDir: '.',
    outDir,
    types: ['node'],
    lib: ['es2023'],
  };
  const config = { extends: './tsconfig.base.json', compilerOptions, include: ['agents/*.ts'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const tsc = run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', folder], { cwd: folder });
  return await tsc.then(
    ({ stdout }) => stdout,
    (error: unknown) => (error as { stdout: string }).stdout,
  );
}

const LLM = {
  provider: 'acme' as LlmProvider,
  model: 'acme-2',
  baseUrl: null,
  apiKeyEnv: null,
  credentialProxy: false,
};

it('its provider type-checks once it is registered, and does what the page says', { timeout: 300_000 }, async () => {
  using folder = new TemporaryFolder();
  for (const name of ['agents', 'domain'])
    cpSync(join(ROOT, name), folder.file(name), { recursive: true, filter: (path) => !path.endsWith('.test.ts') });
  cpSync(join(ROOT, 'tsconfig.base.json'), folder.file('tsconfig.base.json'));
  symlinkSync(join(ROOT, 'node_modules'), folder.file('node_modules'));
  writeFileSync(folder.file('package.json'), '{"type":"module"}');
  const [code = '', ...others] = blocksOf('ts');
  expect(others).toEqual([]);
  writeFileSync(folder.file('agents/acme.ts'), code);
  // Without its tables it is not a provider.
  expect(await compiled(folder.path, 'out')).toContain(`Type '"acme"' is not assignable to type`);
  for (const diff of blocksOf('diff')) register(folder.path, diff);
  mkdirSync(folder.file('out'), { recursive: true });
  expect(await compiled(folder.path, 'out')).toBe('');

  const load = async (path: string): Promise<unknown> => await import(pathToFileURL(folder.file(`out/${path}`)).href);
  const { providerOf } = (await load('agents/registry.js')) as typeof Registry;
  const { credentialsOf } = (await load('domain/agent/credentials.js')) as typeof Credentials;
  const provider = providerOf(LLM);
  expectCall(provider, LLM);
  expect(credentialsOf({ llm: LLM, env: [] })).toEqual([
    { name: 'ACME_API_KEY', value: { kind: 'from-host', fromHost: 'ACME_API_KEY' } },
  ]);
  expectStream(provider, blocksOf('jsonl')[0]!.trimEnd().split('\n'));
});

function expectCall(provider: AgentProvider, llm: LlmPlan): void {
  const skills = [{ kind: 'inline', name: 'style', content: 'Be short.' } as const];
  const task = { prompt: 'x', llm, skills, outputSchema: undefined, limits: {}, resume: 'abc' };
  const { args, env, files } = provider.command(task);
  expect(args).toEqual(['run', '--json', '--model', 'acme-2', '--resume', 'abc']);
  expect(env).toEqual({ HOME: '/home/sandbox' });
  expect(files.map(({ guestPath }) => guestPath)).toContain('/workspace/.claude/skills/style.md');
}

function expectStream(provider: AgentProvider, lines: readonly string[]): void {
  const usage = { inputTokens: 1_200, outputTokens: 34, cachedInputTokens: 0, turns: 2, costUsd: null };
  const read = (...said: readonly string[]): unknown => {
    const stream = provider.stream();
    return [said.flatMap((line) => stream.line(line)), stream.outcome()];
  };
  const before = { sessionId: '0b9f6a52-6c0e-4d6a-9a53-3d1c1f6f7a10', model: 'acme-2', text: 'One test fails.' };
  expect(read(...lines)).toEqual([
    [
      { kind: 'tool', tool: 'shell', detail: 'npm test', failed: true },
      { kind: 'tool-ended' },
      { kind: 'text', text: 'One test fails.' },
      { kind: 'usage', usage },
    ],
    { ...before, hasEnded: true, failure: null, usage, isUsageFinal: true },
  ]);
  // Cut off; refused by the server; no JSON, or an event of an unknown kind.
  expect(read(...lines.slice(0, -1))).toMatchObject([{}, { hasEnded: false, text: 'One test fails.' }]);
  const refused = { hasEnded: true, failure: { code: 'agent/api-error', message: '401' } };
  expect(read('{"type":"end","ok":false,"text":"401"}')).toMatchObject([{}, refused]);
  expect(read('x', '[]', '{"type":"new"}')).toMatchObject([[], { hasEnded: false, failure: null }]);
}
