import { describe, expect, it } from 'vitest';
import { refusedOptions } from './voidbox-kernel.ts';

describe('refusedOptions', () => {
  it('names options that did not take, in either direction', () => {
    const fragment = ['# a comment', 'CONFIG_A=y', 'CONFIG_B=y', 'CONFIG_C=n', 'CONFIG_D=n', 'CONFIG_NR_CPUS=32'].join(
      '\n',
    );
    const resulting = ['CONFIG_A=y', '# CONFIG_B is not set', 'CONFIG_C=y', 'CONFIG_NR_CPUS=8'].join('\n');
    expect(refusedOptions(fragment, resulting)).toEqual(['CONFIG_B=y', 'CONFIG_C=n', 'CONFIG_NR_CPUS=32']);
  });
});
