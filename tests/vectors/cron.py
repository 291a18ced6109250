"""Writes tests/vectors/cron.tsv: firings of random cron expressions around the changes of the clock, by cronsim 2.8.

    pip install cronsim==2.8 tzdata
    python3 tests/vectors/cron.py 10000 7 > tests/vectors/cron.tsv

Each line: expression, zone, start in seconds since 1970, seconds from each firing to the next.
"""
import random
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo
from cronsim import CronSim
ZONES = {  # zone: local days of changes
 "Europe/Berlin": ["2027-03-28","2027-10-31"], "America/New_York": ["2027-03-14","2027-11-07"], "Asia/Tehran": ["2027-03-21"],
 "Australia/Sydney": ["2027-04-04","2027-10-03"], "America/Santiago": ["2027-04-04","2027-09-05"], "Africa/Cairo": ["2027-04-30","2027-10-29"],
 "Asia/Beirut": ["2027-03-28","2027-10-31"], "America/Nuuk": ["2027-03-27","2027-10-30"], "Pacific/Auckland": ["2027-04-04","2027-09-26"],
 "Europe/London": ["2027-03-28","2027-10-31"], "Atlantic/Azores": ["2027-03-28","2027-10-31"], "America/Havana": ["2027-03-14","2027-11-07"],
 "Asia/Kolkata": ["2027-06-01"], "UTC": ["2027-06-01"], "America/Los_Angeles": ["2027-03-14","2027-11-07"], "Asia/Jerusalem": ["2027-03-26","2027-10-31"],
 "Africa/Casablanca": ["2027-02-07","2027-03-14"], "Pacific/Norfolk": ["2027-04-04","2027-10-03"], "America/St_Johns": ["2027-03-14","2027-11-07"], "Asia/Kathmandu": ["2027-06-01"],
}
r = random.Random(int(sys.argv[2]))
def field(lo, hi, names=None, star=0.3):
    k = r.random()
    if k < star:
        return "*"
    if k < star + 0.12:
        return f"*/{r.randint(2, max(2,(hi-lo)//2))}"
    if k < star + 0.4:
        return str(r.randint(lo, hi))
    if k < star + 0.55:
        a, b = sorted(r.sample(range(lo, hi + 1), 2))
        return f"{a}-{b}"
    if k < star + 0.62:
        a, b = sorted(r.sample(range(lo, hi + 1), 2))
        return f"{a}-{b}/{r.randint(2,5)}"
    return ",".join(str(x) for x in sorted(r.sample(range(lo, hi + 1), r.randint(2, 3))))
n = int(sys.argv[1])
while n:
    hour = field(0, 23) if r.random() < 0.5 else field(0, 4)
    expr = " ".join([field(0, 59, star=0.1), hour, field(1, 31, star=0.7), field(1, 12, star=0.8), field(0, 6, star=0.6)])
    zone = r.choice(sorted(ZONES))
    day, tz = r.choice(ZONES[zone]), ZoneInfo(zone)
    start = (datetime.fromisoformat(day) - timedelta(hours=r.randint(1, 40))).replace(tzinfo=tz).astimezone(timezone.utc).replace(microsecond=0)
    try:
        sim = CronSim(expr, start.astimezone(tz))
    except Exception:  # A date that never comes.
        continue
    gaps, last = [], start
    try:
        for _ in range(5):
            at = next(sim).astimezone(timezone.utc)
            gaps.append(int((at - last).total_seconds()))
            last = at
    except StopIteration:
        pass
    print(expr, zone, int(start.timestamp()), " ".join(map(str, gaps)), sep="\t")
    n -= 1
