import { describe, expect, it, vi } from 'vitest';
import { makeBenchCommand } from './bench-command.ts';

function read(...words: string[]): { named: unknown; options: unknown; exitCode: number | null; printed: string } {
  let printed = '';
  const print = (text: string): void => void (printed += text);
  let exitCode: number | null = null;
  const exit = vi.spyOn(process, 'exit').mockImplementation((code) => {
    exitCode = Number(code);
    throw new Error('exit');
  });
  const command = makeBenchCommand('bench', 'Takes figures.', ['stages', 'wide']).configureOutput({
    writeOut: print,
    writeErr: print,
  });
  try {
    command.parse(words, { from: 'user' });
  } catch (error) {
    if (exitCode === null) throw error;
  } finally {
    exit.mockRestore();
  }
  return { named: command.processedArgs[0], options: command.opts(), exitCode, printed };
}

describe('the command line of a bench', () => {
  it('takes the named figures, or all without a name', () => {
    expect(read('wide', '--rounds', '3', '--no-write')).toMatchObject({
      named: ['wide'],
      options: { rounds: 3, write: false },
      exitCode: null,
    });
    expect(read()).toMatchObject({ named: [], options: { rounds: 5, write: true } });
  });

  it('prints its help with the names of all figures, and ends with 0', () => {
    const { exitCode, printed } = read('--help');
    expect(exitCode).toBe(0);
    expect(printed).toMatch(/^Usage: npm run bench -- \[options\] \[figure\.\.\.\]/);
    expect(printed).toContain('"stages", "wide"');
  });

  it.each([
    [['waves'], "'waves' is invalid"],
    [['--rounds', '0'], 'A whole number from 1 to 1000000 fits.'],
    [['--rounds', '1e3'], 'A whole number'],
    [['--round', '3'], "unknown option '--round'"],
  ])('ends with 2, the reason and the usage for %j', (words, reason) => {
    const { exitCode, printed } = read(...words);
    expect(exitCode).toBe(2);
    expect(printed).toContain(reason);
    expect(printed).toContain('Usage: ');
  });
});
