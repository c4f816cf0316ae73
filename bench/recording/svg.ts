/** An animated SVG of a terminal. Without animation, as in a printed page, it shows its last frame. */
import type { Line } from './screen.ts';

export interface Frame {
  readonly atMs: number;
  readonly lines: readonly Line[];
}

const CHARACTER_WIDTH = 8;
const LINE_HEIGHT = 18;
const MARGIN = 14;

/** Colours of SGR on a dark background. */
const COLOURS: Readonly<Record<number, string>> = {
  31: '#ff7b72',
  32: '#7ee787',
  33: '#e3b341',
  34: '#79c0ff',
  35: '#d2a8ff',
  36: '#56d4dd',
  90: '#8b949e',
  91: '#ffa198',
  92: '#a5f3ae',
  93: '#f2cc60',
  94: '#a5d6ff',
  95: '#e2c5ff',
  96: '#9ce9f0',
};

/**
 * @param frames  in the order of their times; each replaces the one before
 * @param holdMs  the time that the last frame stays before the animation begins again
 */
export function renderSvg(frames: readonly Frame[], columns: number, rows: number, holdMs: number): string {
  const totalMs = frames.at(-1)!.atMs + holdMs;
  const [width, height] = [columns * CHARACTER_WIDTH + 2 * MARGIN, rows * LINE_HEIGHT + 2 * MARGIN];
  const toPercent = (ms: number): string => `${((100 * ms) / totalMs).toFixed(2)}%`;
  const styles = frames.map(({ atMs }, index) => {
    const endMs = frames[index + 1]?.atMs ?? totalMs;
    const steps = `0%{visibility:hidden}${toPercent(atMs)}{visibility:visible}${toPercent(endMs)}{visibility:hidden}`;
    return `@keyframes f${index}{${steps}}#f${index}{animation:f${index} ${totalMs}ms steps(1) infinite}`;
  });
  const groups = frames.map(({ lines }, index) => {
    const hidden = index === frames.length - 1 ? '' : ' visibility="hidden"';
    return `<g id="f${index}"${hidden}>${lines.map(renderLine).join('')}</g>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}.b{font-weight:bold}.d{opacity:.65}@media(prefers-reduced-motion:no-preference){${styles.join('')}}</style>`,
    `<rect width="100%" height="100%" rx="8" fill="#0d1117"/>`,
    ...groups,
    '</svg>',
    '',
  ].join('\n');
}

function renderLine(line: Line, row: number): string {
  if (line.length === 0) return '';
  const spans = line.map(({ text, codes }) => {
    const classes = [...(codes.includes(1) ? ['b'] : []), ...(codes.includes(2) ? ['d'] : [])].join(' ');
    const colour = codes.map((code) => COLOURS[code]).find((each) => each !== undefined);
    const attributes = `${classes === '' ? '' : ` class="${classes}"`}${colour === undefined ? '' : ` fill="${colour}"`}`;
    return attributes === '' ? escape(text) : `<tspan${attributes}>${escape(text)}</tspan>`;
  });
  return `<text x="${MARGIN}" y="${MARGIN + (row + 1) * LINE_HEIGHT - 4}">${spans.join('')}</text>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
