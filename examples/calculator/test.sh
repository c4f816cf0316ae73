sum=$(sh ./add.sh 2 3)
if [ "$sum" != 5 ]; then echo "2 + 3 is not $sum"; exit 1; fi
echo "2 + 3 is 5"
