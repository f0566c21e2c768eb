import ky from 'ky';
// For Node, it has another file.
import { nanoid } from 'nanoid';
import pLimit from 'p-limit';
import { t, tool, toolkit } from '#toolcell';

const get = tool({
  name: 'get',
  description: 'Fetches a number some times, at most two at once.',
  input: { url: t.url(), times: t.integer() },
  output: { sum: t.integer(), most: t.integer(), id: t.string() },
  access: ['network'],
  async run({ url, times }) {
    const limit = pLimit(2);
    let [active, most] = [0, 0];
    const one = async () => {
      most = Math.max(most, ++active);
      const { n } = await ky.get(url, { timeout: 5000, retry: 1 }).json();
      active -= 1;
      return n;
    };
    const numbers = await Promise.all(Array.from({ length: times }, () => limit(one)));
    return { sum: numbers.reduce((sum, n) => sum + n, 0), most, id: nanoid() };
  },
});

export default toolkit('packages', [get]);
