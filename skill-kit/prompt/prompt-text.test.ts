import { describe, expect, it } from 'vitest';
import { cpuMsOf } from '../../test/rig/cpu-time.ts';
import { fragment, prompt, resolveTemplate } from './prompt-text.ts';
import { system, view } from './segments.ts';

describe('prompt', () => {
  it('drops blank lines at both ends and the common indentation', () => {
    expect(prompt`
      First.
        Deeper.

      Last.
    `).toBe('First.\n  Deeper.\n\nLast.');
    expect(prompt`One line.`).toBe('One line.');
    expect(prompt`Opens at once
      and goes on.`).toBe('Opens at once\n      and goes on.');
  });

  it('defect: a multi-line fragment in indented text does not defeat the dedent', () => {
    const tone = fragment('tone', 'Be brief.\nBe exact.');
    expect(prompt`
      Before.
      ${tone}
      After.
    `).toBe('Before.\nBe brief.\nBe exact.\nAfter.');
    expect(prompt`
      List:
        ${tone}
      Inline: ${tone} End.
    `).toBe('List:\n  Be brief.\n  Be exact.\nInline: Be brief.\nBe exact. End.');
  });

  it('a value is left as it is, also when it looks indented', () => {
    expect(prompt`
      Code:
      ${'if (x) {\n  y();\n}'}
    `).toBe('Code:\nif (x) {\n  y();\n}');
    expect(prompt`
      ${'  kept'}
    `).toBe('  kept');
  });

  it('writes other values as text', () => {
    expect(prompt`${1} ${true} ${null} ${undefined}`).toBe('1 true null undefined');
    expect(resolveTemplate`
      a
    `).toBe('a');
  });
});

describe('fragment', () => {
  it('is frozen, trimmed and named', () => {
    const made = fragment('tone', '\n  Be brief.  \n');
    expect(made).toEqual({ name: 'tone', content: 'Be brief.' });
    expect(Object.isFrozen(made)).toBe(true);
    expect(() => fragment('', 'x')).toThrow('fragment: name is required');
  });
});

describe('segments', () => {
  it('system dedents as a tag and takes a text as it is', () => {
    expect(system`
      You are
      brief.
    `).toEqual({ kind: 'system', text: 'You are\nbrief.' });
    expect(system('  as it is')).toEqual({ kind: 'system', text: '  as it is' });
    expect(Object.isFrozen(system('x'))).toBe(true);
  });

  it('view joins texts and carries its label', () => {
    expect(view('a')).toEqual({ kind: 'view', label: undefined, text: 'a' });
    expect(view(['a', 'b'])).toEqual({ kind: 'view', label: undefined, text: 'a\n\nb' });
    expect(view('Card', ['a', 'b'])).toEqual({ kind: 'view', label: 'Card', text: 'a\n\nb' });
  });

  it('view does not take its label for a text that is missing', () => {
    expect(() => view('Card', undefined as never)).toThrow(
      'view: the text of "Card" is undefined. Pass a string, or a list of strings.',
    );
    expect(() => view(7 as never)).toThrow('view: the text is number.');
  });
});

it('a long run of blanks in an answer takes no longer than other texts', async () => {
  const blanks = ' \t'.repeat(100_000);
  const cpuMs = await cpuMsOf(() => {
    expect(prompt`${blanks}x`).toBe(`${blanks}x`);
    expect(prompt`x${blanks}`).toBe('x');
  });
  expect(cpuMs).toBeLessThan(5_000);
});
