import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { reference, skill, terminal, type SkillBuilderConfig } from '../exports.ts';
import { type } from '../author/arktype.ts';
import { z } from 'zod';
import { complianceProblems, hostFieldNames } from './frontmatter.ts';
import { skillMd } from './skill-md.ts';

const one = (config: Partial<SkillBuilderConfig> = {}) =>
  skill({ name: 'greeter', description: 'Greets.', entry: 'a', ...(config as object) })
    .step('a', { prompt: 'Greet them.', next: terminal })
    .build();

const written = (
  definition: Buildable,
  protocol: 'session' | 'stateless' = 'session',
): { head: Record<string, unknown>; body: string } => {
  const text = skillMd(
    { definition, version: definition.version, needs: 'Needs Node.', builtWith: 'voidbox 1' },
    protocol,
  );
  const [, head = '', body = ''] = text.split(/^---$/m);
  return { head: parse(head) as Record<string, unknown>, body };
};

describe('the head of SKILL.md', () => {
  it('has the fields of agentskills.io and no other', () => {
    expect(written(one()).head).toEqual({
      name: 'greeter',
      description: 'Greets.',
      compatibility: 'Needs Node.',
      metadata: { 'built-with': 'voidbox 1' },
      'allowed-tools': 'Bash(scripts/run:*) Read mcp__greeter__start mcp__greeter__advance',
    });
    expect(written(one({ version: '1.2.0', license: 'MIT', compatibility: 'Needs git.' })).head).toMatchObject({
      license: 'MIT',
      compatibility: 'Needs git.',
      metadata: { version: '1.2.0', 'built-with': 'voidbox 1' },
    });
  });

  it.each([
    'a: b # c',
    'say "hi"',
    'ends in \\',
    'one\ntwo',
    "it's",
    'three --- dashes',
    '\u0007 & * ! | > % @ `',
    'ü 漢 🎉',
  ])('carries %j through YAML', (description) => {
    expect(written(one({ description })).head['description']).toBe(description);
  });

  it('escapes what readers of YAML refuse or take for the end of a line', () => {
    const description = 'delete \u007f, next line \u0085, separators \u2028 \u2029, marks \ufeff \uffff';
    expect(written(one({ description })).head['description']).toBe(description);
    const text = skillMd({ definition: one({ description }), version: '1.0.0', needs: '', builtWith: '' }, 'session');
    expect(text).not.toMatch(/[\u007f-\u009f\u2028\u2029\ufeff\uffff]/);
  });

  it.each(['123', '1e3', '0x1f', '2024-01-31', 'true', 'null', 'no', 'on', 'y', 'not', 'one', 'e3'])(
    'has the name %s as a text',
    (name) => {
      const definition = one({ name });
      const text = skillMd({ definition, version: '1.0.0', needs: '', builtWith: '' }, 'session');
      for (const version of ['1.1', '1.2'] as const)
        expect(parse(text.split(/^---$/m)[1]!, { version })).toMatchObject({ name });
    },
  );

  it('is not cut short by dashes in a text', () => {
    const text = skillMd(
      { definition: one({ description: 'a --- b' }), version: '1.0.0', needs: '', builtWith: '' },
      'session',
    );
    expect(text.split('---')).toHaveLength(3);
  });

  it('allows the tools of its server, and those of the author once', () => {
    const withTopic = skill({ name: 'g', description: 'G', entry: 'a', allowedTools: 'Read Bash(git log *) Grep' })
      .step('a', { prompt: 'A', next: terminal })
      .topic('t', { label: 'T', content: () => 't' })
      .build();
    expect(written(withTopic).head['allowed-tools']).toBe(
      'Bash(scripts/run:*) Read mcp__g__start mcp__g__advance mcp__g__topics mcp__g__topic Bash(git log *) Grep',
    );
  });

  it('has what only some hosts know behind the rest, when the author sets it', () => {
    const definition = one({
      argumentHint: '[file]',
      paths: ['a/**', 'b'],
      arguments: [],
      userInvocable: false,
      model: 'small',
    });
    expect(written(definition).head).toMatchObject({
      'argument-hint': '[file]',
      paths: ['a/**', 'b'],
      'user-invocable': false,
      model: 'small',
    });
    expect(hostFieldNames(definition)).toEqual(['argument-hint', 'paths', 'model', 'user-invocable']);
    expect(hostFieldNames(one())).toEqual([]);
  });
});

describe('what agentskills.io refuses', () => {
  it.each([
    [{}, 'greeter', null],
    [{ name: 'a1-b2' }, 'a1-b2', null],
    [{ name: 'a'.repeat(64) }, 'a'.repeat(64), null],
    [{ name: 'a'.repeat(65) }, 'a'.repeat(65), 'the name'],
    [{ compatibility: ' ' }, 'greeter', 'its compatibility is empty'],
    [{ name: 'Greeter' }, 'Greeter', 'the name'],
    [{ name: 'a--b' }, 'a--b', 'the name'],
    [{ name: '-a' }, '-a', 'the name'],
    [{ name: 'a_b' }, 'a_b', 'the name'],
    [{}, 'out', 'the folder is called "out" and the skill "greeter"'],
    [{ description: '' }, 'greeter', 'no description'],
    [{ description: '  ' }, 'greeter', 'no description'],
    [{ description: '🎉'.repeat(1024) }, 'greeter', null],
    [{ description: 'x'.repeat(1025) }, 'greeter', '1025 characters'],
    [{ description: 'x'.repeat(1000), triggers: ['some words that are too many'] }, 'greeter', 'triggers included'],
    [{ compatibility: 'x'.repeat(501) }, 'greeter', 'compatibility has 501'],
  ])('%j in the folder %s', (config, folder, problem) => {
    const problems = complianceProblems(one(config), folder);
    expect(problems.map((text) => text.includes(problem ?? 'none'))).toEqual(problem === null ? [] : [true]);
  });

  it('reports all problems at once', () => {
    expect(complianceProblems(one({ name: 'A B', description: '' }), 'x')).toHaveLength(2);
  });
});

describe('the body of SKILL.md', () => {
  it('explains the session, or the calls without one', () => {
    expect(written(one()).body).toContain('scripts/run start --session new --host <host>\n');
    expect(written(one()).body).not.toContain('--history');
    const { body } = written(one(), 'stateless');
    expect(body).toContain("--history '<history>'");
    expect(body).not.toContain('--session');
  });

  it.each([
    [
      'zod',
      z.object({
        path: z.string().describe('Where | to look'),
        depth: z.number().default(3),
        mode: z.enum(['a', 'b']).optional(),
        tags: z.array(z.string()),
      }),
    ],
    ['ArkType', type({ path: 'string', depth: 'number = 3', 'mode?': "'a' | 'b'", tags: 'string[]' })],
  ])('lists the parameters of %s, with defaults', (_library, params) => {
    const { body } = written(one({ params } as never));
    expect(body).toContain('| `depth` | number | no | `3` |');
    expect(body).toContain('| `mode` | `"a"` or `"b"` | no |');
    expect(body).toContain('| `tags` | array of string | yes |');
    expect(body).toMatch(/\| `path` \| string \| yes \|/);
    expect(body).toContain("scripts/run start --session new --host <host> --params '<json>'");
  });

  it('names steps, parts and topics, each on one line', () => {
    const sub = skill({ name: 's', description: 'Does\nmore.', entry: 'x' })
      .step('x', { prompt: 'X', next: terminal })
      .build();
    const { body } = written(
      skill({ name: 'all', description: 'All', entry: 'short' })
        .step('short', { prompt: 'Look at\n  it.', next: 'long' })
        .step('long', { prompt: 'ü'.repeat(101), next: 'made' })
        .step('made', { prompt: () => 'made', next: 'silent' })
        .step('silent', { next: terminal })
        .subskill('more', sub)
        .topic('rules', { label: 'The rules', content: () => 'r' })
        .build(),
    );
    expect(body).toContain(
      `- \`short\`: Look at it.\n- \`long\`: ${'ü'.repeat(100)}…\n- \`made\`\n- \`silent\`: done by the program`,
    );
    expect(body).toContain('- `more`: Does more.');
    expect(body).toContain('- `rules`: The rules');
  });

  it("is the author's own text if the author wrote one", () => {
    expect(written(one({ skillMd: '# Mine\n' })).body).toBe('\n\n# Mine\n');
    expect(written(one({ skillMd: ({ name }: { name: string }) => `I am ${name}` } as never)).body).toBe(
      '\n\nI am greeter\n',
    );
  });

  it('the body for a reference lists its topics and how to read one', () => {
    const definition = reference({ name: 'style', description: 'How we write' })
      .topic('names', { label: 'Names', content: () => 'n' })
      .build();
    const { head, body } = written(definition);
    expect(head['allowed-tools']).toBe('Bash(scripts/run:*) Read mcp__style__topics mcp__style__topic');
    expect(body).toContain('- `names`: Names');
    expect(body).not.toContain('advance');
  });
});
