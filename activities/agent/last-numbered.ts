/**
 * Finds the last of items that are numbered from 1 without gaps, with few lookups of single items. Returns 0 if no item
 * exists.
 */
export async function findLastNumber(stands: (number: number) => Promise<boolean>): Promise<number> {
  let low = 0;
  let high = 1;
  while (await stands(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await stands(middle)) low = middle;
    else high = middle;
  }
  return low;
}
