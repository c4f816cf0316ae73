/**
 * Compiles texts of `run`, and executes them with the shell of this machine: a value keeps its characters and is never
 * code.
 */
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { checkExpressions } from '../expression/check.ts';
import { compileText } from '../load.ts';
import { findPlaceholders } from '../grammar/placeholders.ts';
import { readShell } from './shell-contexts.ts';

const HOSTILE = `a  b'; echo BAD #"$(echo BAD)\`echo BAD\` * \\`;

function compile(text: string, params: Readonly<Record<string, string>> = { x: HOSTILE }) {
  const names = Object.keys(params).map((name) => [name, { type: name === 'n' ? 'number' : 'text' }]);
  const spec = {
    kind: 'workflow',
    name: 'texts',
    params: Object.fromEntries(names) as object,
    workflow: { steps: [{ name: 'a', run: text }] },
  };
  return compileText(JSON.stringify(spec), 'texts.json', { baseDir: null, params, checkExpression: checkExpressions });
}

function run(text: string, params?: Readonly<Record<string, string>>): string {
  const { plan, diagnostics } = compile(text, params);
  expect(diagnostics).toEqual([]);
  const work = plan!.stages[0]!.work;
  if (work.kind !== 'command') throw new Error(`the stage is ${work.kind}`);
  const env = work.env.map(({ name, value }) => [name, value.kind === 'literal' ? value.text : '']);
  return execFileSync(work.program, [...work.args], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], ...(Object.fromEntries(env) as object) },
    cwd: '/',
    timeout: 10_000,
  });
}

describe('a value is one word, with the given characters', () => {
  test.each([
    ['without quotes', 'printf "[%s]" ${{ params.x }} end', `[${HOSTILE}][end]`],
    ['beside other characters', 'printf "[%s]" --tag=${{ params.x }}/y', `[--tag=${HOSTILE}/y]`],
    ['in double quotes', 'printf "[%s]" "tag ${{ params.x }} y"', `[tag ${HOSTILE} y]`],
    ['in single quotes', "printf '[%s]' 'tag ${{ params.x }} $y'", `[tag ${HOSTILE} $y]`],
    ['in an assignment', 'v=${{params.x}}\nprintf "%s" "$v"', HOSTILE],
    ['in a substitution', 'printf "%s" "$(printf "%s" ${{ params.x }})"', HOSTILE],
    ['in a substitution with a case', 'printf "%s" "$(case a in a) printf "%s" ${{ params.x }};; esac)"', HOSTILE],
    ['as a default value', 'printf "%s" "${none:-${{ params.x }}}"', HOSTILE],
    ['as a default value without quotes', 'printf "%s" ${none:-${{ params.x }}}', HOSTILE],
    ['in a here-document', 'cat <<EOF\nx ${{ params.x }}\nEOF\necho end', `x ${HOSTILE}\nend\n`],
    ['behind a here-document', "cat <<'EOF'\nit's\nEOF\nprintf '%s' ${{ params.x }}", `it's\n${HOSTILE}`],
    ['behind a comment with a quote', "# it's\nprintf '%s' ${{ params.x }}", HOSTILE],
    ['in a pipe to a program with a file', 'printf "%s" ${{ params.x }} | sh -c cat', HOSTILE],
    ['behind two bars', 'false || printf "%s" ${{ params.x }} || sh', HOSTILE],
    ['in a comment', '# ${{ params.x }}\necho end', 'end\n'],
    ['in a condition', 'if [ ${{ params.x }} = "" ]; then echo no; else echo yes; fi', 'yes\n'],
    [
      'in a pattern',
      'case "$(printf %s ${{ params.x }})" in ${{ params.x }}) echo same;; *) echo other;; esac',
      'same\n',
    ],
    ['two times', 'printf "%s|%s" ${{ params.x }} "${{params.x}}"', `${HOSTILE}|${HOSTILE}`],
  ])('%s', (_place, text, expected) => {
    expect(run(text)).toBe(expected);
  });

  test('a number is allowed in arithmetic', () => {
    expect(run('echo $(( ${{ params.n }} * 2 ))', { n: '21' })).toBe('42\n');
  });

  test('a literal placeholder stays', () => {
    expect(run("echo '$${{ params.x }}'")).toBe('${{ params.x }}\n');
  });
});

test('a script of several lines ends at the first command that fails', () => {
  expect(() => run('echo one\nfalse\necho two')).toThrow(/Command failed/);
  expect(run('cd /tmp && pwd\nls / | head -n 0')).toBe('/tmp\n');
});

test.each([
  ['sh -c "echo ${{ params.x }}"', 'in a program of sh'],
  ["timeout 5 bash -ec 'echo ${{ params.x }}'", 'in a program of bash'],
  ['A=1 python3 -c "print(\'${{ params.x }}\')"', 'in a program of python3'],
  ['ls | awk "{ print ${{ params.x }} }"', 'in a program of awk'],
  ['eval "${{ params.x }}"', 'in a program of eval'],
  ["if true; then trap 'rm ${{ params.x }}' EXIT; fi", 'in a program of trap'],
  ['sh -c "$(echo ${{ params.x }})"', 'in a program of sh'],
  ['sh -s <<EOF\necho ${{ params.x }}\nEOF', 'in a program of sh'],
  ['python3 - <<EOF\nprint("${{ params.x }}")\nEOF', 'in a program of python3'],
  ['command eval "${{ params.x }}"', 'in a program of eval'],
  ['exec bash -c ${{ params.x }}', 'in a program of bash'],
  ['echo ${{ params.x }} | sh', 'in a program of sh'],
  ['echo a |\n  time python3 -u <<EOF\nprint("${{ params.x }}")\nEOF', 'in a program of python3'],
  ['cat <<EOF | bash -e\nls ${{ params.x }}\nEOF', 'in a program of bash'],
  ['let ${{ params.x }}', 'in a program of let'],
  ['(( ${{ params.x }} > 1 ))', 'in arithmetic'],
  ['echo $(( ${{ params.x }} + 1 ))', 'in arithmetic'],
  ["echo $'\\${{ params.x }}'", 'after a backslash'],
  ['cat <<${{ params.x }}\na\nEOF', 'in the end word of a here-document'],
  ['cat <<- "E${{ params.x }}"\na\nEOF', 'in the end word of a here-document'],
  ['echo `echo ${{ params.x }}`', 'in backquotes'],
  ['echo \\${{ params.x }}', 'after a backslash'],
  ["cat <<'EOF'\n${{ params.x }}\nEOF", 'in a here-document with a quoted end'],
])('a value that would be code, or no value, is refused: %s', (text, message) => {
  const { plan, diagnostics } = compile(text);
  expect(plan).toBeNull();
  expect(diagnostics).toHaveLength(1);
  expect(diagnostics[0]).toMatchObject({ code: 'spec/bad-placeholder', severity: 'error' });
  expect(diagnostics[0]!.message).toContain(`\`run\` of step "a" has "\${{ params.x }}" ${message}`);
});

test('a number is allowed in a program of another interpreter', () => {
  expect(compile('python3 -c "print(${{ params.n }})"', { n: '3' }).diagnostics).toEqual([]);
});

test.each([
  ['#!/usr/bin/env python3\nprint(1)', 'write `run: { program: python3, args: [-c, …] }`'],
  ['#!/bin/bash\nls', 'write `run: { program: bash, args: [-e, -c, …] }`'],
])('the first line of a file for another program is refused: %s', (text, remedy) => {
  expect(compile(text, {}).diagnostics).toMatchObject([{ code: 'spec/bad-value', remedy }]);
});

test('the first line of a file for sh is a comment', () => {
  expect(run('#!/bin/sh\necho end', {})).toBe('end\n');
});

test('the reader finds each place of a text, whatever is around it', () => {
  const shell = "<< <<- <<< < ' \" $' \\ ` $( $(( (( ${ } ) )) # | ; E sh case esac".split(' ');
  const parts = [...shell, ' ', '\n', '${{ params.x }}', '$${{ a }}', '${{ params["x"] }}'];
  let seed = 1;
  const next = (): number => (seed = (seed * 48_271) % 2_147_483_647);
  for (let round = 0; round < 20_000; round += 1) {
    const text = Array.from({ length: 3 + (next() % 20) }, () => parts[next() % parts.length]!).join('');
    const places = findPlaceholders(text);
    expect({ text, contexts: readShell(text, places).contexts.length }).toEqual({ text, contexts: places.length });
  }
});

test('a text of many nested brackets is read in linear time', () => {
  const text = `${'$('.repeat(100_000)}\${{ params.x }}${'"'.repeat(100_000)}`;
  const { plan } = compile(text);
  const work = plan!.stages[0]!.work;
  expect(work.kind === 'command' && work.args[2]!.length).toBeGreaterThan(text.length);
});
