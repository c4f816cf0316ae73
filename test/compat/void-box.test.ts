/**
 * Specs as Void-Box's users have them: each is valid, and `expected.txt` lists the reasons for which this build would
 * refuse it.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { withMockAgents } from '../../domain/plan-rules/mock-agents.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { findUnsupportedParts } from '../../domain/plan-rules/unsupported.ts';
import { compileText } from '../../domain/language/load.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { Problems } from '../../domain/language/text/diagnostics.ts';
import { readSource } from '../../domain/language/text/source.ts';
import type { TreeNode } from '../../domain/language/text/tree.ts';
import { createSpecSchema } from '../../domain/language/grammar/json-schema.ts';
import { compileEditorSchema } from '../rig/skills/editor-schema.ts';

const ROOT = join(import.meta.dirname, 'void-box');
const FILES = readdirSync(ROOT, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
  .sort();
const validate = compileEditorSchema(createSpecSchema());

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const compiled = (file: string) => compileText(textOf(file), file, { baseDir: '/home/ada/void-box' });

function valueOf(node: TreeNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(valueOf);
  return Object.fromEntries([...node.entries].map(([key, { value }]) => [key, valueOf(value)]));
}

test('all 26 are here', () => {
  expect(FILES).toHaveLength(26);
});

test.each(FILES)('%s is valid, for editors too, and its plan is read back the same', (file) => {
  const { plan, diagnostics } = compiled(file);
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  for (const sent of [plan, toWire(plan!)]) expect(checkPlan(JSON.parse(JSON.stringify(sent)))).toEqual({ plan });
  expect(validate(valueOf(readSource(textOf(file), new Problems(file))!)), JSON.stringify(validate.errors)).toBe(true);
});

test('the diagnostics of each spec, and its parts that this build refuses', () => {
  const said = FILES.map((file) => {
    const { plan, diagnostics } = compiled(file);
    const warnings = diagnostics.map(
      ({ line, column, severity, code, message }) => `  ${line}:${column} ${severity} ${code}: ${message}`,
    );
    const refused = findUnsupportedParts(plan!, 'read').map(({ stage, reason }) => `  refused: ${stage} ${reason}`);
    return [file, ...warnings, ...refused].join('\n');
  });
  const path = join(import.meta.dirname, 'expected.txt');
  const text = `${said.join('\n')}\n`;
  if (process.env['UPDATE'] === '1') writeFileSync(path, text);
  expect(text).toBe(readFileSync(path, 'utf8'));
});

test('specs of commands for the usual guest, and of agents whose command line runs, run here', () => {
  const running = FILES.filter((file) => findUnsupportedParts(compiled(file).plan!, 'read').length === 0);
  expect(running).toEqual([
    // With the skills `remote:` that the worker fetches.
    'code_review/code_review_agent.yaml',
    // With the images that `--image` names, like the specs of `oci`.
    'openclaw/node_version.yaml',
    // With a service, which ends by a cancel.
    'openclaw/openclaw_telegram.yaml',
    'openclaw/openclaw_telegram_lmstudio.yaml',
    'openclaw/openclaw_telegram_ollama.yaml',
    'smoke/smoke.yaml',
    'specs/agent.json',
    'specs/codex_smoke.yaml',
    'specs/codex_workflow_smoke.yaml',
    'specs/oci/agent.yaml',
    'specs/oci/guest-image-workflow.yaml',
    'specs/oci/workflow.yaml',
    'specs/pipeline.yaml',
    'specs/smoke_claude_personal.yaml',
    'specs/smoke_test.yaml',
    'specs/snapshot_pipeline.yaml',
    'specs/snapshot_restore.yaml',
    'specs/startup_cross_check.yaml',
    'specs/voidbox-pipeline-personal.yaml',
    'specs/workflow.yaml',
  ]);
});

test('docs/reference/void-box.md says of each example whether it runs', () => {
  const docs = readFileSync(join(import.meta.dirname, '../../docs/reference/void-box.md'), 'utf8');
  const rows = [...docs.matchAll(/^\| `([^`]+)` \| (yes|no) \| \S/gm)].map(([, file, runs]) => `${file} ${runs}`);
  expect(rows).toEqual(
    FILES.map((file) => {
      const { plan, diagnostics } = compiled(file);
      const startsAgent = diagnostics.some(({ message }) => message.includes('the command line of an agent'));
      return `${file} ${startsAgent || findUnsupportedParts(plan!, 'read', 'read').length > 0 ? 'no' : 'yes'}`;
    }),
  );
});

test('the mock agent plays the agents of each example that runs, without a key', () => {
  const agents = FILES.flatMap((file) => {
    const { plan } = compiled(file);
    const played = withMockAgents(plan!);
    return 'problem' in played || findUnsupportedParts(plan!, 'read', 'read').length > 0
      ? []
      : [{ file, plan: played.plan }];
  });
  expect(agents).toHaveLength(12);
  for (const { file, plan } of agents) {
    expect(findUnsupportedParts(plan, 'read', 'read'), file).toEqual([]);
    const keys = plan.hostVariables.filter((name) => /KEY|OAUTH/.test(name));
    expect(keys, file).toEqual([]);
  }
});

test('a command that starts the command line of an agent is a warning, unless an image of the author may have it', () => {
  const warn = (run: string, more = ''): readonly string[] =>
    compileText(`kind: workflow\nname: x\n${more}workflow: { steps: [{ name: a, run: ${run} }] }\n`, 'x.yaml', {
      baseDir: '/specs',
    }).diagnostics.map(({ severity, code, remedy }) => `${severity} ${code}: ${remedy}`);
  for (const [run, provider] of [
    ['{ program: codex, args: [--version] }', 'codex'],
    ['"cd /workspace && claude -p hello"', 'claude'],
  ] as const)
    expect(warn(run)).toEqual([
      expect.stringContaining(
        `warning spec/unsupported: write a stage with \`prompt\` and \`llm: { provider: ${provider} }\``,
      ),
    ]);
  expect(warn('{ program: codex }', 'sandbox: { image: dev }\n')).toHaveLength(1);
  expect(warn('{ program: codex }', 'sandbox: { image: ./own }\n')).toEqual([]);
  expect(warn('"echo codex"')).toEqual([]);
});

test('skills, provider and defaults of an agent come into the plan', () => {
  const { plan } = compiled('specs/oci/skills.yaml');
  expect(plan).toMatchObject({
    kind: 'agent',
    stages: [
      {
        id: 'oci-skills',
        scope: 'oci-skills',
        outputFile: '/workspace/output.json',
        timeoutMs: 900_000,
        input: { kind: 'run-input' },
        work: {
          kind: 'agent',
          mode: 'task',
          llm: { provider: 'ollama', model: 'qwen3-coder:7b' },
          skills: [
            { kind: 'agent', name: 'claude-code' },
            { kind: 'image', image: 'python:3.12-slim', guestPath: '/skills/python', readOnly: true },
            { kind: 'image', image: 'golang:1.23-alpine', guestPath: '/skills/go' },
            { kind: 'image', image: 'eclipse-temurin:21-jdk-alpine', guestPath: '/skills/java' },
          ],
        },
      },
    ],
  });
});

test("a relative path of a skill starts from the spec's folder", () => {
  expect(compiled('hackernews/hackernews_agent.yaml').plan!.stages[0]!.work).toMatchObject({
    skills: [
      { kind: 'agent' },
      {
        kind: 'file',
        source: { kind: 'host', path: '/home/ada/void-box/examples/hackernews/skills/hackernews-api.md' },
      },
    ],
  });
});

test('a variable with an empty value has the value of the host', () => {
  expect(compiled('openclaw/openclaw_telegram.yaml').plan!.hostVariables).toEqual([
    'TELEGRAM_BOT_TOKEN',
    'ANTHROPIC_API_KEY',
  ]);
});
