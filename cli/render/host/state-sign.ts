/** The sign and the color of a state: of stages, and of what is done for an item. */
import type { StageState } from '../../../store/run-view.ts';
import type { Style } from '../text/style.ts';

const SIGNS: Readonly<Record<StageState, readonly ['green' | 'red' | 'yellow' | 'cyan' | 'dim', string]>> = {
  succeeded: ['green', '✓'],
  failed: ['red', '✗'],
  cancelled: ['yellow', '■'],
  running: ['cyan', '▶'],
  asking: ['yellow', '?'],
  sleeping: ['yellow', 'z'],
  retrying: ['yellow', '↻'],
  passed: ['dim', '-'],
  skipped: ['dim', '-'],
  waiting: ['dim', '·'],
};
const SPINNER = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/** @param frame  turns the sign of a running stage by one step each redraw; absent if the output is not redrawn */
export function stateSign(state: StageState, style: Style, frame?: number): string {
  const [color, sign] = SIGNS[state];
  return style[color](state === 'running' && frame !== undefined ? SPINNER[frame % SPINNER.length]! : sign);
}

export function paintState(state: StageState, style: Style): string {
  const [color] = SIGNS[state];
  return style[color](state);
}
